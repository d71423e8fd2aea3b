"""A process that owns a process tree, as a supervisor does, and does what it is told on its stdin.

Its argument is a JSON object: ``allow`` (strategies), ``limits`` (a list for each replica),
``codes`` (the Python programs of the replicas), ``answers`` (a descriptor).  Each order is a
line, each answer a line of JSON; the first, without an order, comes when the replicas have been
forked.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from engines.end_words import describe_end
from trainshed.engines.processes import tree
from trainshed.engines.supervise.kernel.kill import open_process_tree
from trainshed.engines.supervise.kernel.limits import ReplicaLimits
from trainshed.model.trainer_contract import JOB

settings = json.loads(sys.argv[1])


def main():
    before = descriptors()
    limits = [ReplicaLimits(*row) for row in settings["limits"]]
    owned = open_process_tree(
        "a test's", len(settings["codes"]), limits, mark=os.environ[JOB], allow=settings["allow"]
    )
    pids = [start(owned, index, code) for index, code in enumerate(settings["codes"])]
    answer(places=owned.places, strategies=owned.strategies, remarks=owned.remarks, pids=pids)
    for line in sys.stdin:
        order, *rest = line.split()
        collect_but(pids)
        if order == "held":
            answer(more=sorted(descriptors() - before))
        else:
            obey(owned, order, [int(word) for word in rest], limits)


def collect_but(pids):
    """As a supervisor, what it has adopted: thousands of zombies would keep it from the living."""
    for pid in tree.children(os.getpid()):
        if pid not in pids:
            os.waitpid(pid, os.WNOHANG)


def start(tree, index, code):
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.close(0)
        tree.enter(index)
        os.execv(sys.executable, [sys.executable, "-c", code])  # noqa: S606 - what a replica is
    tree.add_replica(index, pid)
    return pid


def obey(tree, order, numbers, limits):
    if order == "kill":
        answer(done=tree.kill())
    elif order == "living":
        answer(living=tree.living())
    elif order == "usage":
        answer(**tree.usage(*numbers)._asdict())
    elif order == "end_of":  # a replica, by index and pid
        index, pid = numbers
        _, status, used = os.wait4(pid, 0)
        tree.add_usage(index, used.ru_utime + used.ru_stime, used.ru_maxrss)
        usage = tree.usage(index)
        code = os.waitstatus_to_exitcode(status)
        limit = limits[index] if limits else ReplicaLimits()
        answer(code=code, words=describe_end(code, usage, limit), **usage._asdict())
    elif order == "remove":
        answer(done=tree.remove())


def descriptors():
    return {int(path.name) for path in Path("/proc/self/fd").iterdir()}


def answer(**words):
    os.write(settings["answers"], json.dumps(words).encode() + b"\n")


if __name__ == "__main__":
    main()
