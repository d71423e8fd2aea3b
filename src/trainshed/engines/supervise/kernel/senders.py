"""Tells processes of jobs from the server by their ancestors: a job gives no orders.

A process is a job's if it, or a process above it, bears the mark of an attempt or is a supervisor.
Processes that are above this one too do not count: a server that runs inside of a job has the same
ones above it as its supervisors.
"""

import os
from collections.abc import Iterator
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
        shared = set(_ancestors(os.getppid()))
        for above in _ancestors(pid):
            if above in shared:
                return False
            is_marked = mark.limit_on(above) not in {None, own_mark}
            if above == os.getpid() or is_marked or _is_supervisor(above):
                return True
    except OSError:
        return True
    return False


def _ancestors(pid: int) -> Iterator[int]:
    """A process, its parent, and so on, without those that proc(5) hides.  Raises OSError.

    With ``hidepid``, or ``ProtectProc=`` of a unit, a user sees only its own processes.  Jobs are
    the user of this process, or this is root, which sees all.
    """
    while pid > 0:
        try:
            parent = tree.parent_of(pid)
        except OSError:
            if _is_of_another_user(pid):
                return
            raise
        yield pid
        pid = parent


def _is_of_another_user(pid: int) -> bool:
    """Whether a process is there, and this one may not signal it."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return False


def _is_supervisor(pid: int) -> bool:
    return _SUPERVISOR in tree.read(f"/proc/{pid}/cmdline")
