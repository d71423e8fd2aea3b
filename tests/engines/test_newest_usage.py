"""The newest lines of usage are at the end of the file, whatever is before them."""

import gzip
from pathlib import Path

import pytest

from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.usage_file import (
    NEWEST_MAX,
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


def test_a_link_is_not_followed(folder, tmp_path):
    (tmp_path / "other").write_bytes(lines(1))
    Path(folder.usage).symlink_to(tmp_path / "other")
    assert read_newest_usage(folder) == []
