"""What the tests of cages share: a process that owns one, and trainers that are hard to end.

Each trainer prints "ready" once all of its processes run.
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from engines.support import MARK, marked_processes, wait_until
from trainshed.engines.processes import tree
from trainshed.engines.processes.cgroup import end_box
from trainshed.engines.processes.tree import kill_listed
from trainshed.engines.supervise.kernel.kill import KILL_STRATEGIES, open_process_tree
from trainshed.model.trainer_contract import JOB

OWNER = Path(__file__).parent / "cage_owner.py"

SLEEPER = "import os, time; os.write(1, b'ready\\n'); time.sleep(600)"
DEAF = "import signal\nfor number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)\n" + SLEEPER
FORKED = "import os, time\npid = os.fork()\nif pid: os.write(1, b'ready\\n')\ntime.sleep(600)"
STOPPED = """
import os, signal, time
for _ in range(2):
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(600)
    os.waitpid(child, os.WUNTRACED)
os.write(1, b'ready\\n')
os.kill(os.getpid(), signal.SIGSTOP)
"""
DAEMON = """
import os, signal, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        os.write(write, b'x')
        time.sleep(600)
    os._exit(0)
os.read(read, 1)
os.write(1, b'ready\\n')
"""
NOHUP = (
    "import subprocess, time\n"
    "subprocess.run('nohup setsid sleep 600 >/dev/null 2>&1 & echo ready', shell=True)\n"
    "time.sleep(600)"
)
#: Each of its processes forks a successor and ends, so none of them is there for long.
RUNAWAY = """
import os, time
end = time.monotonic() + 60
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        while time.monotonic() < end:
            time.sleep(0.003)
            if os.fork():
                os._exit(0)
        os._exit(0)
os.write(1, b'ready\\n')
time.sleep(600)
"""
#: Its processes multiply, slowly enough for a machine to live on if nobody kills them.
BOMB = """
import os, time
end = time.monotonic() + 60
os.write(1, b'ready\\n')
for _ in range(5):  # at most ten thousand, of the 32,768 that a machine has
    os.fork()
    time.sleep(0.02)
while time.monotonic() < end:
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
        os._exit(0)
    time.sleep(0.2)
"""

IN_GROUP = {"sleeper": SLEEPER, "deaf": DEAF, "forked": FORKED, "stopped": STOPPED}
TRAINERS = {
    **IN_GROUP,
    "daemon": DAEMON,
    "daemon beside": DAEMON + "time.sleep(600)",
    "nohup": NOHUP,
    "runaway": RUNAWAY,
    "bomb": BOMB,
}


def available(strategy):
    """Whether this machine has a strategy, tried in the way of the tested code."""
    probe = open_process_tree("probe", 1, allow=[strategy])
    probe.remove()
    tree.adopt_orphans(False)  # a supervisor's business, not that of the tests
    return strategy in probe.strategies


def needs(strategy):
    return pytest.mark.skipif(not available(strategy), reason=f"no {strategy} here")


class Owner:
    """The owner of a tree, and what it said when the replicas had been forked."""

    def __init__(self, process, answers):
        self.process = process
        self._answers = answers
        first = self._answer()
        self.places, self.strategies = first["places"], first["strategies"]
        self.remarks, self.pids = first["remarks"], first["pids"]

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def kill_all(self):
        """As a supervisor: again and again, until it hears that nothing lives."""
        self.ask("kill")
        wait_until(lambda: self.ask("kill") and not self.ask("living")["living"], "all is dead")

    def die(self):
        self.process.kill()
        self.process.wait()

    def _answer(self):
        return json.loads(self._answers.readline())


@contextmanager
def owned(mark, *codes, allow=KILL_STRATEGIES, limits=(), job="", ready=True):
    """The owner of a tree once all its trainers are ready."""
    read, write = os.pipe()
    settings = {"allow": list(allow), "limits": limits, "codes": codes, "answers": write}
    process = subprocess.Popen(
        [sys.executable, OWNER, json.dumps(settings)],
        env={**os.environ, MARK: mark, JOB: job},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[write],
        text=True,
    )
    os.close(write)
    places = []
    try:
        with os.fdopen(read) as answers:
            owner = Owner(process, answers)
            places = owner.places["boxes"]
            for _ in codes if ready else ():
                assert process.stdout.readline() == "ready\n"
            yield owner
    finally:
        process.kill()
        process.wait()
        kill_listed(lambda: marked_processes(mark))
        for path in places:
            end_box(path)
        process.stdin.close()
        process.stdout.close()


def boxes_left(owner):
    return [path for path in owner.places["boxes"] if Path(path).exists()]
