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


def is_of_job(pid: int) -> bool:
    """Whether a process belongs to any attempt on this machine, or is gone and cannot be judged.

    The kernel's pid for a sender outside of our process namespace is 0; jobs are inside.
    """
    own_mark = mark.limit_on(os.getpid())
    try:
        shared = set(tree.ancestors(os.getppid()))
        for above in tree.ancestors(pid):
            if above in shared:
                return False
            is_marked = mark.limit_on(above) not in {None, own_mark}
            if above == os.getpid() or is_marked or _is_supervisor(above):
                return True
    except OSError:
        return True
    return False


def _is_supervisor(pid: int) -> bool:
    return _SUPERVISOR in tree.read(f"/proc/{pid}/cmdline")
