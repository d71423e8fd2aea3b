"""Who is asked to end, and when: a replica first, whom it leaves at once, everybody at last."""

import heapq
import sys

import pytest

from engines.attempts import KEY, ended, marked, order, started, texts
from engines.support import FOREVER, wait_until
from trainshed.engines.local.attempts import start
from trainshed.engines.supervise.ending import Teardown
from trainshed.engines.supervise.loop import Loop
from trainshed.engines.supervise.record.folder import AttemptFolder, Order

#: Ends of SIGTERM like a shell that waits, and leaves a child that wants to hear of it too.
LEAVES_ITS_CHILD = """\
import subprocess, sys, time
child = '''
import signal, time
def told(*_): print("told too", flush=True); raise SystemExit
signal.signal(15, told)
print("ready", flush=True)
while True: time.sleep(0.01)
'''
subprocess.Popen([sys.executable, "-c", child])
while True: time.sleep(0.01)
"""
#: A supervisor that asks everybody almost at once, in a grace of a minute.
EARLY = """\
import sys
sys.path.append(sys.argv[1])
from trainshed.engines.supervise import ending, main
ending._LAST_S_MAX, ending._LAST_SHARE = 59.0, 1.0
sys.exit(main.main(sys.argv[2]))
"""


def test_who_outlives_a_replica_is_asked_at_once(root, mark):
    engine = started(root, marked(mark, LEAVES_ITS_CHILD))
    engine.stop(KEY, order(3600.0))
    ended(engine)
    assert texts(root) == ["ready", "told too"]


def test_before_the_grace_is_over_everybody_is_asked(root, mark, monkeypatch):
    real = start.supervisor_argv
    argv = (sys.executable, "-I", "-S", "-c", EARLY)
    monkeypatch.setattr(start, "supervisor_argv", lambda word: (*argv, *real(word)[-2:]))
    deaf_parent = LEAVES_ITS_CHILD.replace("import subprocess", "import signal, subprocess")
    deaf_parent = deaf_parent.replace("time\n", "time\nsignal.signal(15, lambda *_: None)\n", 1)
    engine = started(root, marked(mark, deaf_parent))
    engine.stop(KEY, order(60.0))
    wait_until(lambda: texts(root) == ["ready", "told too"], "the child was asked")
    engine.stop(KEY, order(0.0))
    assert [e.killed for e in ended(engine).outcome.replicas] == [True]


class Clock(Loop):
    """A loop whose time passes as soon as nothing is due."""

    def __init__(self):
        super().__init__()
        self.now_s = 100.0

    def now(self):
        return self.now_s

    def run_until(self, at_s):
        while self._timers and self._timers[0].at_s <= at_s:
            timer = heapq.heappop(self._timers)
            self.now_s = timer.at_s
            timer.ring()
        self.now_s = at_s


class DeafReplicas:
    """Stands for replicas that end of nothing."""

    def __init__(self, clock):
        self._clock = clock
        self.at_s = {}

    def _hear(self, what):
        self.at_s.setdefault(what, round(self._clock.now() - 100.0, 3))

    def terminate(self):
        self._hear("replicas")

    def terminate_all(self):
        self._hear("everybody")

    def kill(self):
        self._hear("killed")


@pytest.mark.parametrize(
    ("grace_s", "everybody_s"), [(0.0, 0.0), (3.0, 2.4), (20.0, 16.0), (3600.0, 3595.0)]
)
def test_the_last_fifth_of_a_grace_and_five_seconds_at_most_are_everybody_s(
    tmp_path, grace_s, everybody_s
):
    clock = Clock()
    replicas = DeafReplicas(clock)
    ending = Teardown(clock, AttemptFolder(tmp_path), replicas, lambda *_: None)
    ending.begin(Order(grace_s))
    clock.run_until(100.0 + grace_s)
    clock.close()
    assert replicas.at_s == {"replicas": 0.0, "everybody": everybody_s, "killed": grace_s}


def test_a_notice_that_takes_a_while_takes_nothing_of_the_grace(tmp_path, monkeypatch):
    clock = Clock()
    replicas = DeafReplicas(clock)
    ending = Teardown(clock, AttemptFolder(tmp_path), replicas, lambda *_: None)

    def write_slowly(_):
        clock.now_s += 2.0

    monkeypatch.setattr(ending, "_give_notice", write_slowly)
    ending.begin(Order(3.0))
    clock.run_until(110.0)
    clock.close()
    assert replicas.at_s["killed"] - replicas.at_s["replicas"] == 3.0


#: Takes a second SIGTERM for an order to drop everything, as many launchers do.
COUNTS = (
    "import signal, sys, time\n"
    "signal.signal(15, lambda *_: print('told', sys.argv[1:], flush=True))\n"
    "print('ready', flush=True)\n"
    "while True: time.sleep(0.01)\n"
)
LEAVES_ONE_THAT_COUNTS = (
    f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {COUNTS!r}, 'left'])\n"
    "while True: time.sleep(1)"
)


def test_everybody_is_asked_once(root, mark):
    """Neither the ends of others nor the end of the grace ask again those who save their state."""
    quick = "print('ready', flush=True)\n" + FOREVER
    engine = started(root, marked(mark, COUNTS, LEAVES_ONE_THAT_COUNTS, quick, quick))
    for number in range(3):
        wait_until(lambda number=number: texts(root, f"worker-replica-{number}"), "all are ready")
    engine.stop(KEY, order(3600.0))
    wait_until(lambda: len(texts(root)) > 1, "the replica was told")
    wait_until(lambda: len(texts(root, "worker-replica-0")) > 1, "who was left is told")
    engine.stop(KEY, order(3.0))
    ended(engine)
    assert texts(root) == ["ready", "told []"]
    assert texts(root, "worker-replica-0") == ["ready", "told ['left']"]
