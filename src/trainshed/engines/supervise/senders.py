"""Tells processes of jobs from the server by their ancestors: a job gives no orders.

A process is a job's if it, or a process above it, bears the mark of an attempt or is a supervisor.
Of the processes above, those that are above this supervisor too say nothing: a server that runs
inside of a job has the same ones.
"""

import os
from typing import Final

from trainshed.engines.processes import mark, tree

#: Stands in the command of each supervisor, whichever version began it.
_SUPERVISOR: Final = "trainshed.engines.supervise.main"
#: The kernel's pid for a sender outside of our process namespace; jobs are inside.
_OUTSIDE: Final = 0


def is_of_job(pid: int) -> bool:
    """Whether a process belongs to any attempt on this machine, or is gone and cannot be judged."""
    shared = set(_ancestors(os.getppid()))
    own_mark = mark.limit_on(os.getpid())
    try:
        while pid not in shared and pid != _OUTSIDE:
            is_marked = mark.limit_on(pid) not in {None, own_mark}
            if pid == os.getpid() or is_marked or _is_supervisor(pid):
                return True
            pid = tree.parent_of(pid)
    except OSError:
        return True
    return False


def _ancestors(pid: int) -> list[int]:
    """A process and those above it."""
    above = []
    while pid:
        above.append(pid)
        pid = tree.parent_of(pid)
    return above


def _is_supervisor(pid: int) -> bool:
    return _SUPERVISOR in tree.read(f"/proc/{pid}/cmdline")
