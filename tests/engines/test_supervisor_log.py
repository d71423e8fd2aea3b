"""The log of an attempt: every line once, in order, whatever the file system does meanwhile."""

import errno
import fcntl
import os
import shutil
import sys
import termios
from itertools import count, pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.engines.supervise.loop import Loop
from trainshed.engines.supervise.record import segments
from trainshed.engines.supervise.record.output import Output, OutputSource
from trainshed.engines.supervise.record.segments import SegmentWriter, last_stamp
from trainshed.model.log_line import SEGMENT_PATTERN, LogLine, decode, encode

#: What a file system may do at each write: take so many bytes, or fail.
DISKS = st.lists(st.integers(0, 60) | st.sampled_from([errno.ENOSPC, errno.EDQUOT, errno.EIO]))
TEXTS = st.lists(st.text(max_size=30), max_size=30)


def lines_in(folder):
    data = b"".join(path.read_bytes() for path in sorted(folder.glob(SEGMENT_PATTERN)))
    assert not data or data.endswith(b"\n")
    return [decode(line) for line in data.split(b"\n") if line]


def say(writer, text):
    writer.line("a", text, severity="INFO", stream="stdout")


@given(TEXTS, DISKS)
def test_a_disk_that_takes_pieces_or_nothing_costs_no_line(tmp_path_factory, texts, disk):
    folder = tmp_path_factory.mktemp("attempt") / "log"
    answers = iter([step for step in disk if step])

    def write(descriptor, data):
        answer = next(answers, None)
        if answer in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
            raise OSError(answer, os.strerror(answer))
        return os.write(descriptor, bytes(data)[:answer])

    writer = SegmentWriter(folder, segment_bytes_max=300)
    before, segments.os = segments.os, _os_with(write)
    try:
        for text in texts:
            say(writer, text)
            if not writer.flush():
                assert writer.is_blocked
    finally:
        segments.os = before
    assert writer.sync()
    assert not writer.is_blocked
    writer.close()
    lines = lines_in(folder)
    assert [line.text for line in lines] == texts
    assert all(a.stamp_ns < b.stamp_ns for a, b in pairwise(lines))
    for path in folder.glob(SEGMENT_PATTERN):
        assert path.read_bytes().endswith(b"\n"), "no line goes over two segments"


def _os_with(write):
    return SimpleNamespace(**{**vars(os), "write": write})


def test_a_folder_that_goes_away_and_comes_back_costs_no_line(tmp_path):
    attempt = tmp_path / "attempt"
    attempt.mkdir()
    writer = SegmentWriter(attempt / "log")
    say(writer, "one")
    assert writer.flush()
    shutil.move(attempt, tmp_path / "away")
    writer._written = segments.SEGMENT_BYTES_MAX
    say(writer, "two")
    assert not writer.flush()
    say(writer, "three")
    shutil.move(tmp_path / "away", attempt)
    assert writer.flush()
    writer.close()
    assert [line.text for line in lines_in(attempt / "log")] == ["one", "two", "three"]


def test_removed_segments_take_nothing_along_that_is_written_later(tmp_path):
    writer = SegmentWriter(tmp_path / "log")
    say(writer, "one")
    assert writer.flush()
    shutil.rmtree(tmp_path / "log")
    say(writer, "two")
    assert writer.flush()
    writer.close()
    assert [line.text for line in lines_in(tmp_path / "log")] == ["two"]


def test_the_oldest_segments_go_as_new_ones_come(tmp_path):
    """One job must not fill the disk between two looks of the server."""
    writer = SegmentWriter(tmp_path / "log", segment_bytes_max=1000, bytes_max=5000)
    for number in range(1000):
        say(writer, f"{number:090}")
        assert writer.flush()
        assert sum(path.stat().st_size for path in (tmp_path / "log").iterdir()) < 7500
    writer.close()
    numbers = [int(line.text) for line in lines_in(tmp_path / "log")]
    assert numbers == list(range(numbers[0], 1000))
    assert len(numbers) * 90 > 3000


def test_what_lies_in_the_way_of_a_segment_stays_as_it_is(tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "00000001.jsonl").write_bytes(b"torn")
    (folder / "00000002.jsonl").mkdir()
    writer = SegmentWriter(folder)
    say(writer, "one")
    assert writer.sync()
    writer.close()
    assert (folder / "00000001.jsonl").read_bytes() == b"torn"
    assert decode((folder / "00000003.jsonl").read_bytes()).text == "one"


GOOD = encode(LogLine(stamp_ns=41, task_name="a", text="x"))
WRECKS = {
    "torn": (GOOD + b'[42, "a", "IN', 41),
    "garbage at its end": (GOOD + b"\xff\0\0\n", 41),
    "garbage": (b"\0" * 5000, 0),
    "a stamp that no clock gives": (GOOD + b'[9999999999999999999, "a", "", "", "", ""]\n', 41),
    "another shape": (GOOD + b"{}\n" + b"[1]\n" + b'["x", 1, 2, 3, 4, 5]\n', 41),
    "long lines": (GOOD + b"x" * (1 << 20) + b"\n", 0),
    "empty": (b"", 0),
}


@pytest.mark.parametrize("name", WRECKS)
def test_older_segments_in_any_state_stop_no_new_one(tmp_path, name):
    data, stamp_ns = WRECKS[name]
    older = tmp_path / "1" / "log"
    older.mkdir(parents=True)
    (older / "00000001.jsonl").write_bytes(data)
    (tmp_path / "2").mkdir()
    (tmp_path / "notes").write_text("not an attempt")
    assert last_stamp(str(tmp_path)) == stamp_ns


@given(st.binary(max_size=200))
def test_a_segment_of_anything_at_all_has_a_last_stamp_or_none(tmp_path_factory, data):
    job = tmp_path_factory.mktemp("job")
    (job / "1" / "log").mkdir(parents=True)
    (job / "1" / "log" / "00000001.jsonl").write_bytes(GOOD + data)
    assert last_stamp(str(job)) >= 0


def test_while_the_log_cannot_be_written_nothing_is_read_and_the_log_says_so_later(tmp_path):
    """The programs wait in their writes: a pipe holds 64 KiB."""
    loop, clock, wrote = Loop(), count(), []
    writer = SegmentWriter(tmp_path / "away" / "log", clock=lambda: next(clock))
    output = Output(loop, writer, wrote.append)
    program = output.open(OutputSource(0, "a", ""), "stdout")
    os.write(program, b"one\n")
    loop.turn()
    assert not output.deliver()
    assert output.is_held_back
    for number in range(1000):
        os.write(program, b"%d\n" % number)
    wrote.clear()
    loop.turn()
    assert int.from_bytes(fcntl.ioctl(program, termios.FIONREAD, bytes(4)), sys.byteorder) == 3890
    assert wrote == [0], "who waits for the log does not hang"
    (tmp_path / "away").mkdir()
    while output.is_held_back:
        loop.turn()
    os.close(program)
    assert output.finish()
    writer.close()
    loop.close()
    texts = [line.text for line in lines_in(tmp_path / "away" / "log")]
    assert texts[0] == "one"
    assert "could not be written for" in texts[1]
    assert texts[2:] == [str(number) for number in range(1000)]
