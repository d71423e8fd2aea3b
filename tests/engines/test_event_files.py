"""Event files of TensorFlow and PyTorch, read without either."""

import shutil
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.events import event, first, record, simple, tensor, text
from trainshed.engines.supervise.watch.event_files import (
    EventFile,
    masked_crc,
    parse_simple,
    scalars,
)
from trainshed.engines.supervise.watch.event_folders import EventFolder, evaluates
from trainshed.files.beneath import PathBeneath

IMAGE = text(1, text(1, "image") + text(4, b"\x89PNG" * 100_000))


def read_scalars(file):
    return [(r.tag, r.step, r.value) for reports in file.read() for r in reports]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.out.tfevents.1"


def test_the_checksum_is_the_one_of_the_documents():
    """CRC-32C of the digits 1 to 9 is e3069283 (RFC 3720 B.4); masked as record_writer.h has it."""
    crc = 0xE3069283
    assert masked_crc(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_both_ways_of_writing_a_scalar_are_read(path):
    path.write_bytes(
        first()
        + record(event(simple("loss", 0.5), simple("lr", 0.25), step=3, at_s=1234.5))
        + record(event(tensor("acc", 0.75), step=-4))
        + record(event(tensor("acc", 0.1, "<d", 2), step=5))
        + record(event(tensor("words", 7, "<i", 7)))
    )
    file = EventFile(PathBeneath.of_file(str(path)))
    assert read_scalars(file) == [
        ("loss", 3, 0.5),
        ("lr", 3, 0.25),
        ("acc", -4, 0.75),
        ("acc", 5, 0.1),
    ]
    assert file.trouble == ""
    assert read_scalars(file) == []


def parse(data):
    return scalars(lambda at, count: data[at : at + count], len(data))


@given(st.text(min_size=1, max_size=200), st.floats(width=32), st.integers(-(2**63), 2**63 - 1))
def test_the_fast_parser_of_one_value_returns_what_the_other_one_returns(tag, value, step):
    data = event(simple(tag, value), step=step, at_s=1234.5)
    fast = parse_simple(data + b"sum.", len(data))
    assert fast is None or repr(fast) == repr(parse(data))
    assert (fast is None) == (len(tag.encode()) > 127 - 9)


@pytest.mark.parametrize(
    "data",
    [
        event(simple("a", 1), simple("b", 2), step=3),
        event(tensor("a", 1), step=3),
        event(simple("", 1), step=3),
        event(text(1, text(1, "a") + text(2, "no number"))),
        event(),
        event(simple("a", 1)) + b"\0",
        b"",
    ],
)
def test_the_fast_parser_leaves_other_events_to_the_other_one(data):
    assert parse_simple(data + b"sum.", len(data)) is None


@given(st.binary(max_size=60), st.integers(0, 60))
def test_the_fast_parser_never_reads_beyond_an_event(noise, cut):
    data = event(simple("loss", 0.5), step=3)
    data = data[:cut] + noise
    with suppress(UnicodeDecodeError):
        fast = parse_simple(data + b"sum.", len(data))
        assert fast is None or repr(fast) == repr(parse(data))


def test_values_that_are_no_numbers_are_written_as_they_are(path):
    path.write_bytes(record(event(simple("loss", float("nan")), simple("loss", float("-inf")))))
    (first_one, second) = [
        r.value for reports in EventFile(PathBeneath.of_file(str(path))).read() for r in reports
    ]
    assert first_one != first_one  # noqa: PLR0124 - NaN
    assert second == float("-inf")


def test_a_record_larger_than_is_loaded_is_read_all_the_same(path):
    path.write_bytes(record(event(simple("loss", 1.0), IMAGE, simple("acc", 2.0), step=9)))
    assert read_scalars(EventFile(PathBeneath.of_file(str(path)))) == [
        ("loss", 9, 1.0),
        ("acc", 9, 2.0),
    ]


@given(st.data())
def test_a_file_that_grows_is_read_the_same_however_it_is_cut(tmp_path_factory, data):
    values = data.draw(st.lists(st.floats(width=32, allow_nan=False), max_size=6))
    whole = first() + b"".join(
        record(event(simple("loss", value), step=i)) for i, value in enumerate(values)
    )
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=5))
    path = tmp_path_factory.mktemp("events") / "x.tfevents"
    file, rows = EventFile(PathBeneath.of_file(str(path))), []
    for cut in (*sorted(cuts), len(whole)):
        path.write_bytes(whole[:cut])
        assert file.has_changed() == (cut != file._size)
        rows += read_scalars(file)
        assert not file.has_changed()
    assert rows == [("loss", i, value) for i, value in enumerate(values)]


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data):
    framed = record(data)
    assert len(framed) == len(data) + 16
    try:
        reports = scalars(lambda at, count: data[at : at + count], len(data))
    except (IndexError, ValueError, struct.error):
        return
    assert all(isinstance(report.tag, str) for report in reports)


@given(st.binary(max_size=300))
def test_no_file_breaks_the_reader(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("events") / "x.tfevents"
    good = record(event(simple("loss", 1.0)))
    path.write_bytes(good + record(data) + good + data)
    losses = [
        row for row in read_scalars(EventFile(PathBeneath.of_file(str(path)))) if row[0] == "loss"
    ]
    assert len(losses) >= 2


def test_a_damaged_record_costs_itself_and_a_damaged_length_the_rest(path):
    good, bad = record(event(simple("loss", 1.0))), bytearray(record(event(simple("loss", 9.0))))
    bad[-6] ^= 1
    path.write_bytes(good + bad + good)
    file = EventFile(PathBeneath.of_file(str(path)))
    assert [value for *_, value in read_scalars(file)] == [1.0, 1.0]
    assert file.damaged == 1
    bad[3] ^= 1
    path.write_bytes(good + bad + good)
    file = EventFile(PathBeneath.of_file(str(path)))
    assert [value for *_, value in read_scalars(file)] == [1.0]
    assert file.trouble == f"it is damaged at byte {len(good)}"


# folders


def read(folder, *, is_last=True):
    sources = folder.read(time.monotonic() + 60.0, is_last=is_last)
    return [(s.evaluates, r.tag, r.step) for s in sources for r in s.reports]


def test_what_is_below_is_found_as_it_comes_and_evaluations_first(tmp_path):
    folder = EventFolder(str(tmp_path / "logs"))
    assert folder.description() == f"there are no new event files in {tmp_path}/logs"
    for part in ("train", "validation"):
        (tmp_path / "logs" / part).mkdir(parents=True)
        (tmp_path / "logs" / part / "events.out.tfevents.2").write_bytes(
            record(event(tensor("epoch_loss", 1.0), step=1))
        )
    assert read(folder) == [(True, "epoch_loss", 1), (False, "epoch_loss", 1)]
    assert folder.description() == f"event files in {tmp_path}/logs have the tag epoch_loss"


def test_files_of_earlier_runs_are_nobody_s_reports_but_what_comes_after_them_is(path, tmp_path):
    path.write_bytes(first() + record(event(simple("loss", 1.0), step=1)))
    folder = EventFolder(str(tmp_path))
    assert read(folder) == []
    assert "no new event files" in folder.description()
    with path.open("ab") as file:
        file.write(record(event(simple("loss", 2.0), step=2)))
    assert read(folder) == [(False, "loss", 2)]


def test_a_reading_that_has_no_time_left_is_gone_on_with(tmp_path):
    folder = EventFolder(str(tmp_path))
    for name in ("a", "b"):
        data = b"".join(record(event(simple(name, 1.0), step=i)) for i in range(50))
        (tmp_path / f"{name}.tfevents").write_bytes(data)
    rows, before = [], -1
    while len(rows) > before:
        before = len(rows)
        sources = list(folder.read(time.monotonic(), is_last=True))
        rows += [(r.tag, r.step) for source in sources for r in source.reports]
    assert sorted(rows) == [(name, i) for name in "ab" for i in range(50)]


def test_what_is_no_file_is_told_and_passed_over(tmp_path):
    folder = EventFolder(str(tmp_path))
    (tmp_path / "a.tfevents").mkdir()
    (tmp_path / "b.tfevents").symlink_to("b.tfevents")
    (tmp_path / "c.tfevents").write_bytes(b"\0" * 100)
    (tmp_path / "d.tfevents").write_bytes(record(event(simple("loss", 1.0))))
    assert read(folder) == [(False, "loss", 0)]
    assert "b.tfevents: it is a symbolic link" in folder.description()


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("/x/validation/f", True),
        ("/x/eval/f", True),
        ("/x/run/eval_final/f", True),
        ("/x/test/f", True),
        ("/x/train/f", False),
        ("/x/evaluation.tfevents", False),
        ("/x/latest/f", False),
    ],
)
def test_an_evaluation_is_known_by_its_folder(path, is_one):
    assert evaluates(path, "/x") is is_one


# what TensorFlow itself writes

#: Written by TensorFlow 2.21, by the program that the next test runs.
WRITTEN = Path(__file__).with_name("tensorflow_events")
WRITER = Path(__file__).with_name("write_tensorflow_events.py")


def test_what_tensorflow_wrote_is_read(tmp_path):
    written_s = 1795392017.0
    times_s = check_tensorflows(tmp_path, lambda: shutil.copytree(WRITTEN, tmp_path / "written"))
    assert all(written_s <= at_s < written_s + 10.0 for at_s in times_s)


@pytest.mark.full
@pytest.mark.slow
def test_what_tensorflow_writes_is_read(tmp_path):
    for package in ("tensorflow", "tensorboard"):
        pytest.importorskip(package, reason=f"{package} is not installed; make test installs it")
    argv, started_s = (sys.executable, WRITER, tmp_path / "written"), time.time()
    times_s = check_tensorflows(tmp_path, lambda: subprocess.run(argv, check=True))
    assert all(started_s <= at_s <= time.time() for at_s in times_s)


def check_tensorflows(path, write):
    """Check the scalars that are written below a path; when they were measured, in seconds."""
    folder = EventFolder(str(path))
    write()
    reports = [
        (source.evaluates, report)
        for source in folder.read(time.monotonic() + 60.0, is_last=True)
        for report in source.reports
    ]

    def rows_of(tag):
        return sorted((e, r.step, r.value) for e, r in reports if r.tag == tag)

    assert rows_of("accuracy") == [(False, 0, 0.5), (False, 1, 1.5), (False, 2, 2.5)]
    assert rows_of("loss") == [(True, 12, 0.25)]
    assert rows_of("weights") == rows_of("note") == []
    for tag in ("epoch_loss", "epoch_mae"):
        steps = [row[:2] for row in rows_of(tag)]
        assert steps == [(False, 0), (False, 1), (True, 0), (True, 1)]
    return [report.at_s for _, report in reports]
