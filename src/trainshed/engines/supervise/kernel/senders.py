"""Distinguishes processes of jobs from the server, by their ancestors.

A process of a job may not send orders to a supervisor.

A process belongs to a job if the process or one of its ancestors has the mark of an attempt or is
a supervisor.  Ancestors that this process shares do not count: if the server itself runs inside a
job, the server and its supervisors have the same ancestors.
"""

import os
from collections.abc import Iterator
from typing import Final

from trainshed.engines.processes import mark, tree

#: Part of the command line of every supervisor, of all versions.
_SUPERVISOR: Final = "trainshed.engines.supervise.main"


def is_of_job(pid: int) -> bool:
    """Return whether a process belongs to an attempt on this machine; True for an ended process.

    The kernel gives pid 0 for a sender outside this process namespace; jobs are inside it.
    """
    own_mark = mark.read_limit(os.getpid())
    try:
        shared = set(_list_ancestors(os.getppid()))
        for ancestor in _list_ancestors(pid):
            if ancestor in shared:
                return False
            is_marked = mark.read_limit(ancestor) not in {None, own_mark}
            if ancestor == os.getpid() or is_marked or _is_supervisor(ancestor):
                return True
    except OSError:
        return True
    return False


def _list_ancestors(pid: int) -> Iterator[int]:
    """Yield a process, its parent, and so on, up to the first that /proc hides.  Raises OSError.

    With ``hidepid``, or ``ProtectProc=`` of a unit, a user sees only its own processes.  That hides
    no job: jobs run as the user of this process, or this process is root, which sees all.
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
    """Return whether a process lives and this process is not allowed to signal it."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return False


def _is_supervisor(pid: int) -> bool:
    return _SUPERVISOR in tree.read(f"/proc/{pid}/cmdline")
