"""A worker outlives every failure of its step, and says what is wrong without repeating itself."""

import logging
import threading

import pytest

from trainshed.controller.worker import Worker
from trainshed.store.base import StoreFault


@pytest.fixture(autouse=True)
def _log_is_heard(monkeypatch):
    monkeypatch.setattr(logging.getLogger("trainshed"), "propagate", True)


def fail_often(times, tick_s):
    """Have a step fail so many times, then be taken once more."""
    attempts, done = [], threading.Event()

    def step():
        attempts.append(1)
        if len(attempts) <= times:
            raise StoreFault("the database cannot be used")
        done.set()

    worker = Worker("tried", step, tick_s=tick_s)
    worker.start()
    try:
        assert done.wait(60)
    finally:
        worker.end()
        worker.join()


def test_a_step_that_is_seldom_taken_is_taken_again_soon_after_a_failure():
    """A lease is renewed four times in its life, and must not end because one of them failed."""
    fail_often(1, tick_s=3600.0)


def test_what_lasts_is_not_told_at_every_try(caplog):
    fail_often(50, tick_s=0.001)
    assert len(caplog.records) == 1
    assert "'tried' failed: the database cannot be used" in caplog.text


def test_a_step_that_hangs_holds_up_no_end_that_has_a_bound():
    """The step that asks a driver may hang for ever."""
    began, goes_on, ended = threading.Event(), threading.Event(), threading.Event()

    def step():
        began.set()
        assert goes_on.wait(60)

    worker = Worker("hung", step, tick_s=3600.0, end_s=0.01)

    def end():
        worker.end()
        worker.join()
        ended.set()

    worker.start()
    try:
        assert began.wait(60)
        threading.Thread(target=end, daemon=True).start()
        assert ended.wait(60)
        assert not goes_on.is_set()
    finally:
        goes_on.set()


def test_a_worker_runs_from_its_start_to_its_end():
    worker = Worker("idle", lambda: None, tick_s=3600.0)
    assert not worker.is_running
    worker.start()
    try:
        assert worker.is_running
    finally:
        worker.end()
    assert not worker.is_running
    worker.join()
