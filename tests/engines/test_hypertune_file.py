"""The file that cloudml-hypertune writes anew at each report, and what else lies in its place."""

import errno
import json
import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.engines.supervise.record.reports import Reported
from trainshed.engines.supervise.watch.hypertune_file import LINE_BYTES_MAX, MetricFile, parsed

KEPT = 100
HYPERTUNE = (
    '{"acc": "10.0", "checkpoint_path": "", "global_step": "10", '
    '"timestamp": 1795220043.5, "trial": "7"}'
)
ODD = "{} has the metrics loss, lr, and 1 line that is not a report, such as 'accuracy is 0.5'"


def line(step, tag="loss", value=0.5, **more):
    body = {tag: str(value), "global_step": str(step), "timestamp": 1000.0 + step, "trial": "3"}
    return json.dumps({**body, "checkpoint_path": "", **more}, sort_keys=True) + "\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "output.metrics"


@pytest.fixture
def file(path):
    return MetricFile(str(path))


def steps(reports):
    return [report.step for report in reports]


# one line


@pytest.mark.parametrize(
    ("text", "reports"),
    [
        (HYPERTUNE, [Reported("acc", 10.0, 10, 1795220043.5)]),
        ('{"acc": 1, "global_step": 3}', [Reported("acc", 1.0, 3, None)]),
        ('{"acc": "inf", "global_step": "1e3"}', [Reported("acc", float("inf"), 1000, None)]),
        ('{"acc": "-inf", "global_step": null}', [Reported("acc", float("-inf"), 0, None)]),
        (
            '{"a": "1", "b": 2, "global_step": "nan"}',
            [Reported("a", 1, 0, None), Reported("b", 2, 0, None)],
        ),
        ('{"acc": 0.5, "global_step": 1e30}', [Reported("acc", 0.5, (1 << 63) - 1, None)]),
        ('{"acc": "much"}', []),
        ('{"acc": true}', []),
        ('{"acc": [1]}', []),
        ('{"acc": 1' + "0" * 400 + "}", []),
        ('{"acc": 1' + "0" * 5000 + "}", []),
        ('{"acc": ' + "[" * 10_000, []),
        ('{"acc": "' + " " * LINE_BYTES_MAX + '1"}', []),
        ('["acc", 1]', []),
        ("{", []),
        ("\ud800", []),
        ('{"timestamp": 1.0, "trial": "1"}', []),
    ],
)
def test_a_line_is_read_as_it_is_meant(text, reports):
    assert parsed(text.encode(errors="surrogatepass")) == reports


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).map(lambda value: json.dumps(value).encode())
)
def test_no_line_breaks_the_reader(data):
    assert all(isinstance(report.value, float) for report in parsed(data))


# a file that is written anew at each report


@given(st.lists(st.integers(1, KEPT), max_size=12), st.data())
def test_every_report_is_told_once_if_it_was_ever_to_be_seen(tmp_path_factory, bursts, data):
    """Readings in between meet the file empty or cut; each burst is read whole at its end."""
    path = tmp_path_factory.mktemp("metrics") / "output.metrics"
    file, step_numbers, count = MetricFile(str(path)), [], 0
    for burst in bursts:
        count += burst
        whole = "".join(line(step) for step in range(max(0, count - KEPT), count))
        path.write_text(whole[: data.draw(st.integers(0, len(whole)))])
        step_numbers += steps(file.read())
        path.write_text(whole)
        step_numbers += steps(file.read())
    assert step_numbers == list(range(count))


def test_a_file_that_is_met_half_written_is_known_to_be(file, path):
    path.write_text("")
    assert file.read() == []
    assert file.is_torn
    path.write_text(line(0) + line(1)[:20])
    assert steps(file.read()) == [0]
    assert file.is_torn
    path.write_text(line(0) + line(1).rstrip("\n"))
    assert steps(file.read()) == [1]
    path.write_text(line(0) + line(1))
    assert file.read() == []
    assert not file.is_torn
    assert file.description() == f"{path} has the metric loss"


def test_the_same_line_twice_are_two_reports(file, path):
    """A program may have a clock that stands still."""
    path.write_text(line(0))
    assert steps(file.read()) == [0]
    path.write_text(line(0) * 3)
    assert steps(file.read()) == [0, 0]


def test_a_file_that_grows_beyond_all_bounds_is_read_at_its_end(file, path):
    step_numbers, count = [], 0
    for _ in range(6):
        with path.open("a") as out:
            out.write("".join(line(count + i) for i in range(1000)))
        count += 1000
        step_numbers += steps(file.read())
    assert step_numbers == list(range(count))
    assert file.read() == []


def test_what_was_there_before_is_not_the_trial_s(file, path):
    path.write_text(line(1))
    file.skip_content()
    with path.open("a") as out:
        out.write(line(2))
    assert steps(file.read()) == [2]


# what else may lie in its place


def nothing(path):
    assert not path.exists()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (nothing, "{} was never written"),
        (lambda p: p.touch(), "{} has no metrics"),
        (lambda p: p.mkdir(), "{} could not be read: it is not a file"),
        (os.mkfifo, "{} could not be read: it is not a file"),
        (lambda p: p.symlink_to(p), "{} could not be read: it is a symbolic link"),
        (
            lambda p: p.write_bytes(b"\x00\xff\n\x1b[31m\n"),
            "{} has 2 lines that are not reports, such as '\\x00\\xff'",
        ),
        (
            lambda p: p.write_text(line(1) + "accuracy is 0.5\n" + line(2, "lr")),
            ODD,
        ),
    ],
)
def test_people_are_written_what_was_found(file, path, make, expected):
    make(path)
    for _ in range(3):
        file.read()
    assert file.description() == expected.format(path)


def test_a_socket_is_no_file(file, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("output.metrics")
        assert file.read() == []
    assert "could not be read" in file.description()


def test_a_file_that_may_not_be_read_is_told(file, path, monkeypatch):
    """Root may read everything: the kernel's answer is played."""

    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    path.write_text(line(1))
    with monkeypatch.context() as refused:
        refused.setattr(os, "open", refuse)
        assert file.read() == []
    assert file.description() == f"{path} could not be read: Permission denied"


def test_trouble_that_is_over_is_forgotten(file, path):
    path.mkdir()
    file.read()
    path.rmdir()
    path.write_text(line(1))
    assert steps(file.read()) == [1]
    assert file.description() == f"{path} has the metric loss"


def test_a_million_names_do_not_make_a_long_sentence(file, path):
    path.write_text("".join(line(i, tag=f"{i}" + "x" * 200) for i in range(500)))
    assert len(file.read()) == 500
    assert len(file.description()) < 2000 + len(str(path))
    assert file.description().endswith("and more")
