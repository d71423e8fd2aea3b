import os
import signal
import uuid
from contextlib import suppress

import pytest

from engines.attempts import ENGINES, engine_at, order, until
from engines.support import DEADLINE_S, assert_no_survivor, marked_processes
from trainshed.engines.local.attempts import fence as fencing
from trainshed.model.attempt import AttemptKey, Phase


@pytest.fixture
def mark():
    """A name for the processes of one test; a process that does not end by itself fails the
    test."""
    name = uuid.uuid4().hex
    yield name
    try:
        assert_no_survivor(name)
    finally:
        for pid in marked_processes(name):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(autouse=True)
def _engines_close():
    yield
    _close_engines()


def _close_engines():
    while ENGINES:
        ENGINES.pop().close()


@pytest.fixture
def patience(monkeypatch):
    """Wait longer: a server would retry later, a test does not."""
    monkeypatch.setattr(fencing, "_GONE_S_MAX", DEADLINE_S)


@pytest.fixture
def root(request, tmp_path):
    """A folder of attempts; stops each remaining one at the end and checks that it ended."""
    request.getfixturevalue("mark")
    path = tmp_path / "jobs"
    yield path
    engine = engine_at(path)
    keys = [AttemptKey(int(p.parent.name), int(p.name)) for p in path.glob("*/*")]
    for key in keys:
        engine.stop(key, order(0.0))
    for key in keys:
        until(engine, Phase.ENDED, Phase.LOST, key=key)
    _close_engines()  # a fork server may bear the mark
