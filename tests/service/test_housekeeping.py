"""Chores go on when one fails, and a clock that was set is told once."""

import logging
import threading

import pytest

from trainshed.service.upkeep.housekeeping import ClockWatch, DiskWatch, Housekeeping


@pytest.fixture(autouse=True)
def _log_is_heard(monkeypatch, caplog):
    monkeypatch.setattr(logging.getLogger("trainshed"), "propagate", True)
    caplog.set_level(logging.INFO, logger="trainshed")


def test_a_chore_that_fails_keeps_neither_the_others_nor_itself_from_being_done(caplog):
    twice = threading.Event()
    done = []

    def fail():
        done.append("old logs")
        raise OSError(28, "No space left on device")

    def note():
        done.append("old jobs")
        if len(done) >= 4:
            twice.set()

    housekeeping = Housekeeping({"old logs": fail, "old jobs": note}, every_s=0.01)
    housekeeping.start()
    assert twice.wait(30)
    housekeeping.stop()
    assert done[:4] == ["old logs", "old jobs"] * 2
    assert "chore old logs failed" in caplog.text
    assert "No space left" in caplog.text
    assert "Traceback" not in caplog.text


def test_one_that_was_never_begun_can_be_ended():
    Housekeeping({}).stop()


@pytest.mark.parametrize(
    ("skews", "words"),
    [
        ([0, 1, -4, 5], []),
        ([3600, 3599, 3602], ["3600 s ahead of"]),
        ([-3600, -3600], ["3600 s behind"]),
        ([3600, 0, 0], ["ahead", "agrees"]),
        ([3600, 7200, 7200], ["3600 s ahead", "7200 s ahead"]),
        ([3600, -3600], ["3600 s ahead", "3600 s behind"]),
        ([3600, 3594, 3588, 60, 6, 4, 0], ["3600 s ahead", "agrees"]),
        ([4, 4, 8], ["8 s ahead"]),
    ],
)
def test_a_clock_that_was_set_is_told_once_for_each_change(caplog, skews, words):
    readings = iter(skews)
    watch = ClockWatch(lambda: float(next(readings)))
    for _ in skews:
        watch.look()
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == len(words)
    assert all(word in message for word, message in zip(words, messages, strict=True))


def test_a_disk_that_gets_full_is_told_once_and_so_is_its_end(caplog, tmp_path):

    free_bytes = iter([0, 1 << 20, 1, 0, 0, 5 << 20])
    watch = DiskWatch(tmp_path, lambda _: next(free_bytes))
    for _ in range(6):
        watch.look()
    messages = [record.getMessage() for record in caplog.records]
    words = ("free at least 1 MiB", "has enough space again", "free at least 5 MiB")
    assert len(messages) == len(words)
    assert all(word in message for word, message in zip(words, messages, strict=True))
