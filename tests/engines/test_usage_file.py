"""The file of usage stays small, and no end of its writer and no program of the job breaks it."""

import errno
import gzip
import os
import tracemalloc
from pathlib import Path

import pytest

from trainshed.engines.supervise.record import usage_file
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.usage_file import UsageFile, read_usage, thin
from trainshed.model import usage as usage_model
from trainshed.model.usage import GpuUsage, Spread, UsageLine, encode_lines

DAY_S = 86_400.0
MIB = 1 << 20


@pytest.fixture
def folder(tmp_path):
    return AttemptFolder(tmp_path)


def encode(at, gpus=8):
    usages = {f"GPU-{number}": GpuUsage(power=Spread(1, at % 7, 9)) for number in range(gpus)}
    return encode_lines(UsageLine(at, 60.0, gpus=usages))


def times_of(folder):
    return [line.at for line in read_usage(folder)]


def test_lines_are_packed_and_all_are_read(folder):
    file = UsageFile(folder)
    for minute in range(1000):
        file.append(encode(minute * 60.0), minute * 60.0)
    assert times_of(folder) == [minute * 60.0 for minute in range(1000)]
    newest, packed = (Path(path).stat().st_size for path in (folder.usage, folder.packed_usage))
    assert newest < usage_file._PACK_BYTES
    unpacked = gzip.decompress(Path(folder.packed_usage).read_bytes())
    assert packed < len(unpacked) / 5


def test_the_last_lines_of_a_long_attempt_are_packed_too(folder):
    """Servers keep a hundred thousand attempts."""
    file = UsageFile(folder)
    for minute in range(60):
        file.append(encode(minute * 60.0), minute * 60.0)
    file.append(encode(3600.0), 3600.0, are_last=True)
    assert Path(folder.usage).stat().st_size == 0
    assert times_of(folder) == [minute * 60.0 for minute in range(61)]


def test_a_writer_that_was_killed_while_it_packed_repeats_nothing(folder):
    Path(folder.usage).write_bytes(b"\n".join(encode(1.0) + encode(2.0)))
    Path(folder.packed_usage).write_bytes(gzip.compress(encode(0.0)[0] + b"\n" + encode(1.0)[0]))
    assert times_of(folder) == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("cut", [1, 30, 400, 10_000])
def test_a_packed_file_that_was_cut_off_is_read_so_far(folder, cut):
    pieces = [b"".join(line + b"\n" for line in encode(at)) for at in (1.0, 2.0, 3.0)]
    data = b"".join(map(gzip.compress, pieces))
    Path(folder.packed_usage).write_bytes(data[:-cut])
    times = times_of(folder)
    assert times == [1.0, 2.0, 3.0][: len(times)]
    assert times or cut > len(data) / 3


def test_a_write_that_failed_leaves_the_lines_before_and_after(folder, monkeypatch):
    """The disk is full while it appends, while it packs, and while it thins."""
    file, write, at = UsageFile(folder), os.write, 0.0
    written = []

    def fail(descriptor, data):
        write(descriptor, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    for minute in range(400):
        at = 20 * DAY_S + minute * 60
        is_full = minute % 60 in range(50, 60)
        monkeypatch.setattr(usage_file.os, "write", fail if is_full else write)
        try:
            file.append(encode(at), at)
        except OSError:
            assert is_full
        else:
            written.append(at)
    assert times_of(folder) == written
    assert len(written) < 400


def test_old_lines_of_a_long_attempt_are_merged(folder):
    file = UsageFile(folder)
    for minute in range(9 * 24 * 60):
        file.append(encode(minute * 60.0, gpus=3), minute * 60.0)
    lines = read_usage(folder)
    assert sum(line.s for line in lines) == 9 * DAY_S
    old = [line for line in lines if line.s > 60]
    assert len(old) > 100
    assert max(line.s for line in old) == 600
    assert sorted(path.name for path in Path(folder.path).iterdir()) == [
        "usage.jsonl",
        "usage.jsonl.gz",
    ]


def test_the_newest_lines_of_a_long_attempt_are_never_lost(folder, monkeypatch):
    """A reader unpacks only so much; then old lines get longer, and not the newest ones lost."""
    hour_s = 3600.0
    monkeypatch.setattr(usage_file, "_UNPACKED_BYTES_MAX", 13 << 12)
    monkeypatch.setattr(usage_file, "_PACK_BYTES", 1 << 12)
    monkeypatch.setattr(usage_file, "_THIN_EVERY_S", hour_s)
    for module in (usage_file, usage_model):
        monkeypatch.setattr(module, "FULL_S", 7 * hour_s)
    file = UsageFile(folder)
    for minute in range(3000):
        at = minute * 60.0
        file.append(encode(at, gpus=2), at)
    lines = read_usage(folder)
    assert (lines[0].at < hour_s, lines[-1].at) == (True, at)
    assert {line.s for line in lines[-400:]} == {60.0}


def test_the_lines_of_a_day_are_merged_with_little_memory(folder):
    """A supervisor has little."""
    lines = [line for minute in range(1440) for line in encode(minute * 60.0, gpus=16)]
    Path(folder.packed_usage).write_bytes(gzip.compress(b"\n".join(lines)))
    tracemalloc.start()
    thin(folder, DAY_S * 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(read_usage(folder)) == 144
    assert peak < 2 * MIB


def test_a_file_that_a_program_has_made_long_does_not_stop_its_supervisor(folder):
    Path(folder.usage).touch()
    os.truncate(folder.usage, 1 << 40)
    file = UsageFile(folder)
    file.append(encode(1.0), 1.0)
    file.append(encode(2.0), 2.0)
    assert times_of(folder) == [2.0]


def test_merging_keeps_what_it_cannot_read(folder):
    """It also does not mind what an earlier one has left."""
    lines = [b"torn", b'{"at":x,"s":1}', *encode(1.0), *encode(2.0), *encode(DAY_S * 20), b'{"at']
    Path(folder.packed_usage).write_bytes(gzip.compress(b"\n".join(lines)))
    Path(folder.packed_usage + ".new").write_bytes(b"left")
    thin(folder, DAY_S * 20)
    assert [(line.at, line.s) for line in read_usage(folder)] == [(2.0, 120.0), (DAY_S * 20, 60.0)]
    assert b"torn" in gzip.decompress(Path(folder.packed_usage).read_bytes())


def test_merging_that_fails_changes_nothing(folder, monkeypatch):
    data = gzip.compress(b"\n".join(encode(1.0) + encode(2.0)))
    Path(folder.packed_usage).write_bytes(data)

    def replace(_source, _target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(usage_file.os, "replace", replace)
    with pytest.raises(OSError, match="No space"):
        thin(folder, DAY_S * 20)
    assert [path.name for path in Path(folder.path).iterdir()] == ["usage.jsonl.gz"]
    assert Path(folder.packed_usage).read_bytes() == data


def test_a_file_that_unpacks_to_gigabytes_costs_little(folder):
    """A program of the job may have written it."""
    piece = gzip.compress(bytes(32 * MIB), mtime=0)
    Path(folder.packed_usage).write_bytes(piece * 20 + gzip.compress(encode(1.0)[0]))
    tracemalloc.start()
    assert read_usage(folder) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * MIB


@pytest.mark.parametrize("name", ["usage", "packed_usage"])
def test_what_is_no_file_is_neither_read_nor_written(folder, tmp_path, name):
    other = tmp_path / "other"
    other.write_bytes(encode(1.0)[0] + b"\n")
    path = Path(getattr(folder, name))
    path.symlink_to(other)
    assert read_usage(folder) == []
    path.unlink()
    os.mkfifo(path)
    assert read_usage(folder) == []
    path.unlink()
    assert read_usage(AttemptFolder(tmp_path / "absent")) == []


def test_a_link_in_place_of_the_file_is_not_written_to(folder, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"")
    Path(folder.usage).symlink_to(other)
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        UsageFile(folder).append(encode(1.0), 1.0)
    assert other.read_bytes() == b""
