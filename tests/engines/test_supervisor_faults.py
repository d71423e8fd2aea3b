"""Whatever happens to supervisors, nothing of their jobs lives without them, and it is told so."""

import os
import random
import secrets
import shutil
import signal
import time
from contextlib import suppress

import pytest

from engines.attempts import (
    KEY,
    ended,
    engine_at,
    folder,
    marked,
    observe,
    record,
    texts,
    until,
)
from engines.support import FOREVER, assert_no_survivor, wait_until
from trainshed.engines.local.attempts import start
from trainshed.model.attempt import AttemptKey, Phase

#: A supervisor whose loop fails when its replicas run.
FAILS = """\
import sys
sys.path.append(sys.argv[1])
from trainshed.engines.supervise import main
from trainshed.engines.supervise.attempt import Attempt
before = Attempt.advance
def advance(self):
    before(self)
    if self.replicas.have_started:
        raise RuntimeError("a mistake of ours")
Attempt.advance = advance
sys.exit(main.main(sys.argv[2]))
"""

#: A supervisor on a machine that has no room for another process.
FORKLESS = """\
import errno, os, sys
sys.path.append(sys.argv[1])
from trainshed.engines.supervise import main
first, real = os.getpid(), os.fork
def fork():
    if os.getpid() != first:  # the fork server has room
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return real()
os.fork = fork
sys.exit(main.main(sys.argv[2]))
"""

FORKS = (
    "import os, signal, time\nsignal.signal(15, signal.SIG_IGN)\n"
    "for _ in range(3):\n"
    "    if os.fork() == 0:\n        os.setsid()\n        os.fork()\n        time.sleep(600)\n"
    "time.sleep(600)"
)


def engine_with(root, code, monkeypatch):
    """An engine whose supervisors run this code."""
    real = start.supervisor_argv

    def altered(role):
        return tuple(code if "import sys" in word else word for word in real(role))

    monkeypatch.setattr(start, "supervisor_argv", altered)
    return engine_at(root)


def test_a_mistake_of_ours_is_told_and_leaves_nothing_behind(root, mark, monkeypatch):
    engine = engine_with(root, FAILS, monkeypatch)
    engine.launch(KEY, marked(mark, FORKS, FOREVER), ())
    observation = until(engine, Phase.LOST, Phase.ENDED)
    assert observation.phase is Phase.LOST, "our mistake is not the program's"
    assert observation.fault == "the local engine failed: RuntimeError: a mistake of ours"
    assert "RuntimeError" in (folder(root) / "runner.txt").read_text()
    assert_no_survivor(mark)


def test_a_machine_without_room_for_its_processes_is_no_fault_of_the_job(root, mark, monkeypatch):
    engine = engine_with(root, FORKLESS, monkeypatch)
    engine.launch(KEY, marked(mark, FOREVER, FOREVER), ())
    observation = until(engine, Phase.LOST, Phase.ENDED)
    assert observation.phase is Phase.LOST
    assert observation.fault.startswith(
        "cannot start 2 processes: Resource temporarily unavailable"
    )


def test_a_plan_file_that_cannot_be_read_is_a_fault(root, mark, monkeypatch):
    monkeypatch.setattr(start.plan_file, "encode", lambda _: {"uid": "strange"})
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, "print('x')"), ())
    assert until(engine, Phase.LOST, Phase.ENDED).fault.startswith("the local engine failed: ")
    assert record(root, "Began")


def test_an_attempt_whose_folder_was_removed_ends(root, mark, tmp_path):
    """Nobody could ever stop it: its socket, its order and its end have no place."""
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, FOREVER), ())
    until(engine, Phase.READY)
    engine._attempts.get(KEY).folder.path = str(tmp_path / "gone")
    shutil.rmtree(folder(root).parent)
    assert_no_survivor(mark)
    wait_until(lambda: not engine._attempts.get(KEY).is_running(), "the supervisor has ended too")


@pytest.mark.slow
def test_killed_supervisors_leave_nothing_and_the_next_attempts_run_once(root, mark):
    """At any moment of their lives: while they start, fork, run, or stop."""
    dice = random.Random(7)  # noqa: S311 - any moments will do
    engine = engine_at(root)
    keys = [AttemptKey(secrets.randbits(60), 1) for _ in range(20)]
    for key in keys:
        engine.launch(key, marked(mark, FORKS, FORKS), ())
        time.sleep(dice.uniform(0.0, 0.15))  # moments of a supervisor's life
        with suppress(ProcessLookupError):
            os.kill(engine._attempts.get(key).child, signal.SIGKILL)
    for key in keys:
        until(engine, Phase.LOST, key=key)
    assert_no_survivor(mark)
    for key in keys:
        second = AttemptKey(key.uid, 2)
        engine.launch(second, marked(mark, "print('second')"), ())
        assert ended(engine, second).outcome.exit_code == 0
        assert texts(root, key=second) == ["second"]
        assert observe(engine, key).phase is Phase.LOST
