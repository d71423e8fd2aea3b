"""No replica of an older attempt runs beside a newer one, whoever comes back and when."""

import os
import signal
import subprocess
from contextlib import suppress

import pytest

from engines.attempts import (
    KEY,
    ended,
    engine_at,
    folder,
    marked,
    order,
    record,
    records,
    supervisor,
    texts,
    until,
)
from engines.support import FOREVER, awaiting, is_stopped, marked_processes, wait_until
from trainshed.engines.local.attempts import fence as fencing
from trainshed.engines.local.attempts import start
from trainshed.engines.local.attempts.fence import OlderAttemptLives
from trainshed.engines.local.attempts.plan_file import Preparation
from trainshed.engines.local.attempts.start import AttemptStarter, supervisor_argv
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.spec import HangRule
from trainshed.model.attempt import AttemptKey, Phase

SECOND = AttemptKey(KEY.uid, 2)
COUNTS = "import itertools, time\nfor i in itertools.count():\n    print(i, flush=True)\n"
COUNTS += "    time.sleep(0.01)\n"


pytestmark = pytest.mark.usefixtures("patience")


def test_a_suspended_supervisor_never_does_anything_again(root, mark):
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, COUNTS), ())
    wait_until(lambda: texts(root), "the first attempt runs")
    first = supervisor(root)
    os.kill(first, signal.SIGSTOP)
    engine_at(root).launch(SECOND, marked(mark, FOREVER), ())
    written = texts(root)
    with suppress(ProcessLookupError):
        os.kill(first, signal.SIGCONT)
    until(engine, Phase.READY, key=SECOND)
    wait_until(lambda: len(marked_processes(mark)) == 1, "only the second attempt's replica lives")
    assert texts(root) == written
    assert until(engine, Phase.LOST).outcome is None
    engine.stop(SECOND, order(0.0))
    ended(engine, SECOND)


def test_one_that_was_suspended_before_it_began_does_not_begin(root, mark, tmp_path, monkeypatch):
    """It holds the lock, and has not yet looked whether it was given up."""
    ran = tmp_path / "ran"
    code = f"open({str(ran)!r}, 'w').close()"
    attempt = AttemptFolder(folder(root))
    with monkeypatch.context() as killed:
        killed.setattr(start, "spawn", lambda *_: 0)
        AttemptStarter((), HangRule()).begin(KEY, attempt, Preparation(plan=marked(mark, code)))
    script = (
        "import os, signal, sys\nsys.path.append(sys.argv[1])\n"
        "from trainshed.engines.supervise import main\n"
        "held = main._has_begun\n"
        "def look(folder):\n    os.kill(os.getpid(), signal.SIGSTOP)\n    return held(folder)\n"
        "main._has_begun = look\nmain.main(sys.argv[2])"
    )
    argv = [
        script if word.startswith("import sys") else word for word in supervisor_argv(attempt.path)
    ]
    with subprocess.Popen(argv) as late:
        wait_until(lambda: is_stopped(late.pid), "it is suspended")
        assert attempt.is_held()
        engine = engine_at(root)
        engine.launch(SECOND, marked(mark, "print('second')"), ())
        ended(engine, SECOND)
        late.send_signal(signal.SIGCONT)
    assert not ran.exists()
    assert records(root) == []
    assert until(engine, Phase.LOST).fault == "its supervisor was killed"


def test_while_an_older_one_cannot_be_ended_the_next_is_refused_for_now(root, mark, monkeypatch):
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, FOREVER), ())
    until(engine, Phase.READY)
    with monkeypatch.context() as undead:
        undead.setattr(fencing.identity, "send_signal", lambda *_: None)
        undead.setattr(fencing, "_GONE_S_MAX", 0.1)
        with pytest.raises(OlderAttemptLives):
            engine.launch(SECOND, marked(mark, "print('second')"), ())
    assert not folder(root, SECOND).exists()
    engine.launch(SECOND, marked(mark, "print('second')"), ())
    ended(engine, SECOND)
    assert texts(root, key=SECOND) == ["second"]


def test_an_older_attempt_that_has_ended_is_left_as_it_is(root, mark, tmp_path):
    go = tmp_path / "go"
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, awaiting(go) + "exit(3)"), ())
    go.touch()
    ended(engine)
    before = records(root)
    engine.launch(SECOND, marked(mark, "print('second')"), ())
    ended(engine, SECOND)
    assert records(root) == before
    assert ended(engine).outcome.exit_code == 3
    assert not (folder(root) / "stop").exists()
    assert record(root, "Began", SECOND)
