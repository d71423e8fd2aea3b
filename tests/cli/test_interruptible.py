"""Ctrl-C while a log is silent: obeyed even where the signal does not end the read itself."""

import signal
import threading
import time

import pytest

from trainshed.cli.jobs.submitted import AHEAD_MAX, interruptible

WAIT_S = 120.0


@pytest.fixture
def never():
    """Set when the test has ended, for the threads that wait for it."""
    event = threading.Event()
    yield event
    event.set()


def test_all_items_come_in_their_order():
    assert list(interruptible(iter(range(1000)))) == list(range(1000))


def test_what_the_items_raise_is_raised_behind_those_that_came():
    def broken():
        yield 1
        raise OSError("gone")

    items = interruptible(broken())
    assert next(items) == 1
    with pytest.raises(OSError, match="gone"):
        next(items)


def test_a_slow_reader_has_only_so_many_items_read_for_it():
    read = []
    numbers = range(4 * AHEAD_MAX)
    items = interruptible(read.append(number) or number for number in numbers)
    assert next(items) == 0
    deadline = time.monotonic() + WAIT_S
    while len(read) <= AHEAD_MAX and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)  # an unbounded reader would be far ahead by then
    assert AHEAD_MAX < len(read) <= AHEAD_MAX + 2
    assert [0, *items] == list(numbers)  # and no thread is left beside the tests that fork


def test_a_signal_that_does_not_end_the_read_is_obeyed(never):
    def silent():
        yield "line"
        never.wait(WAIT_S)

    bystander = threading.Thread(target=never.wait, args=(WAIT_S,), daemon=True)
    bystander.start()
    items = interruptible(silent())
    assert next(items) == "line"
    began = time.monotonic()
    # as lost to the main thread as one that comes in the moment before its read begins
    timer = threading.Timer(0.3, signal.pthread_kill, (bystander.ident, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012  # it may come before the read, too
        timer.start()
        next(items)
    assert time.monotonic() - began < WAIT_S  # the read itself would have ended then
