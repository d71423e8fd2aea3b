"""Output that a warden repeats for a reader who may be slow, or not there."""

import os
from contextlib import suppress

import pytest

from trainshed.engines.supervise.loop import Loop
from trainshed.engines.warden.repeat import OutputRepeater
from warden.attempts import eventually

CHUNK = 1 << 16


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    yield reader, writer
    for descriptor in (reader, writer):
        with suppress(OSError):
            os.close(descriptor)


def read_all(loop, reader, until):
    came = bytearray()

    def has_come():
        with suppress(BlockingIOError):
            came.extend(os.read(reader, 1 << 20))
        loop.after(0.0, lambda: None)
        loop.turn()
        return bytes(came).endswith(until)

    eventually(has_come, f"{until!r} has come")
    return bytes(came)


def test_what_a_reader_takes_in_time_comes_whole(loop, pipe):
    reader, writer = pipe
    repeater = OutputRepeater(loop, writer)
    sent = [bytes([97 + i]) * CHUNK for i in range(6)]
    for data in sent:
        repeater.repeat(data)
    assert read_all(loop, reader, b"f" * CHUNK) == b"".join(sent)


def test_of_what_a_slow_reader_leaves_the_last_comes_and_the_gap_is_told(loop, pipe):
    reader, writer = pipe
    repeater = OutputRepeater(loop, writer)
    count = 100
    for number in range(count):
        repeater.repeat(f"{number:03d}".encode() * (CHUNK // 4) + b"\n")
    repeater.repeat(b"the end")
    came = read_all(loop, reader, b"the end")
    note = next(line for line in came.split(b"\n") if line.startswith(b"["))
    missing = int(note.split()[0][1:])
    sent = count * (3 * (CHUNK // 4) + 1) + len(b"the end")
    assert len(came) - len(note) - 2 == sent - missing
    assert came.split(note)[0].startswith(b"000")
    assert came.split(note)[1].endswith(b"099\nthe end")


def test_a_reader_that_has_gone_is_nothing_to_wait_for(loop, pipe):
    reader, writer = pipe
    repeater = OutputRepeater(loop, writer)
    repeater.repeat(b"x" * (1 << 20))
    os.close(reader)
    repeater.finish(60.0)
    repeater.repeat(b"more")
    loop.after(0.0, lambda: None)
    loop.turn()


def test_a_reader_that_reads_nothing_is_waited_for_only_shortly(loop, pipe):
    _, writer = pipe
    repeater = OutputRepeater(loop, writer)
    repeater.repeat(b"x" * (1 << 20))
    repeater.finish(0.01)


def test_a_closed_descriptor_and_a_file_are_no_trouble(loop, tmp_path):
    path = tmp_path / "output"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    repeater = OutputRepeater(loop, descriptor)
    repeater.repeat(b"x" * (1 << 20))
    os.close(descriptor)
    assert path.stat().st_size == 1 << 20
    OutputRepeater(loop, descriptor).repeat(b"x")
