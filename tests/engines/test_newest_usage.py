"""The newest lines of usage are at the end of the file, whatever is before them."""

import gzip
from pathlib import Path

import pytest

from trainshed.engines.supervise.record import usage_file
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.usage_file import (
    NEWEST_MAX,
    read_newest_steps,
    read_newest_usage,
    read_usage,
)


@pytest.fixture
def folder(tmp_path):
    return AttemptFolder(tmp_path)


def lines(*times):
    return b"".join(b'{"at":%d,"s":10}\n' % at for at in times)


def times_of(usage):
    return [line.at for line in usage]


def test_an_attempt_without_samples_has_none(folder):
    assert read_newest_usage(folder) == []


def test_the_newest_lines_are_the_last_ones_of_all(folder):
    Path(folder.usage).write_bytes(b"x" * 200_000 + b"\n" + lines(*range(1000)) + b'{"at":99')
    assert times_of(read_newest_usage(folder)) == times_of(read_usage(folder))[-NEWEST_MAX:]


def test_lines_that_were_just_packed_are_read_from_there(folder):
    Path(folder.packed_usage).write_bytes(gzip.compress(lines(*range(100))))
    Path(folder.usage).write_bytes(b"")
    assert times_of(read_newest_usage(folder)) == [*range(100)][-NEWEST_MAX:]


def pack(folder, *packs):
    Path(folder.packed_usage).write_bytes(b"".join(map(gzip.compress, packs)))


def test_the_lines_before_the_first_one_that_is_not_packed_are_in_the_last_pack(folder):
    pack(folder, lines(*range(100)), lines(*range(100, 120)))
    Path(folder.usage).write_bytes(lines(120, 121))
    assert times_of(read_newest_usage(folder)) == [*range(106, 122)]


def test_only_the_last_pack_is_unpacked(folder, monkeypatch):
    monkeypatch.setattr(usage_file, "read_usage", lambda _: pytest.fail("all was read"))
    pack(folder, *(lines(*range(n, n + 20)) for n in range(0, 1000, 20)))
    assert times_of(read_newest_usage(folder)) == [*range(984, 1000)]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(b"\x1f\x8b\x08", id="head"),
        pytest.param(b"\x1f\x8b\x08" * 20_000, id="heads"),
        pytest.param(gzip.compress(b"x" * 500, mtime=0)[:-9], id="torn"),
        pytest.param(b"noise", id="noise"),
    ],
)
def test_a_last_pack_that_is_torn_leaves_the_lines_after_it(folder, end):
    Path(folder.packed_usage).write_bytes(gzip.compress(lines(1, 2)) + end)
    Path(folder.usage).write_bytes(lines(3, 4))
    assert times_of(read_newest_usage(folder)) in ([3, 4], [1, 2, 3, 4])


def test_a_link_is_not_followed(folder, tmp_path):
    (tmp_path / "other").write_bytes(lines(1))
    Path(folder.usage).symlink_to(tmp_path / "other")
    assert read_newest_usage(folder) == []


def test_only_lines_after_a_time_are_parsed(folder, monkeypatch):
    pack(folder, lines(*range(100)))
    Path(folder.usage).write_bytes(lines(*range(100, 110)))
    parsed = []
    monkeypatch.setattr(usage_file, "parse_lines", lambda data: parsed.extend(data) or [])
    monkeypatch.setattr(usage_file, "_read_last_pack", lambda _: pytest.fail("it is not needed"))
    read_newest_usage(folder, 107.0)
    assert parsed == [b'{"at":108,"s":10}', b'{"at":109,"s":10}']
    parsed.clear()
    assert read_newest_usage(folder, 109.0) == parsed == []


@pytest.mark.parametrize("after_s", [50, 90, 95])
def test_lines_after_a_time_are_in_the_last_pack_too(folder, after_s):
    pack(folder, lines(*range(94)))
    Path(folder.usage).write_bytes(lines(94, 95))
    later = [*range(after_s + 1, 96)]
    assert times_of(read_newest_usage(folder, after_s)) == later[-NEWEST_MAX:]


def test_usage_of_a_range_of_time_is_parsed_alone(folder, monkeypatch):
    pack(folder, lines(*range(100)))
    Path(folder.usage).write_bytes(b"noise\n" + lines(*range(100, 120)))
    parse_lines, parsed = usage_file.parse_lines, []

    def parse(data):
        parsed.extend(data := [*data])
        return parse_lines(data)

    monkeypatch.setattr(usage_file, "parse_lines", parse)
    assert times_of(read_usage(folder, 95, 95)) == [95]
    assert times_of(read_usage(folder, 115.0)) == [115, 116, 117, 118, 119]
    assert len(parsed) == 6


def with_step(at, step):
    return b'{"at":%d,"s":10,"replicas":{"a":{"step":[%d,%d]}}}\n' % (at, step, step)


def test_the_newest_steps_are_before_lines_without(folder):
    assert read_newest_steps(folder) == []
    pack(folder, with_step(1, 7) + with_step(2, 8) + lines(*range(3, 100)))
    Path(folder.usage).write_bytes(lines(*range(100, 120)))
    steps = [line.replicas["a"].step for line in read_newest_steps(folder)]
    assert steps == [(7, 7), (8, 8)]
