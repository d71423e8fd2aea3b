"""The few things Linux offers for owning a tree of processes and Python has no name for.

``prctl`` is reached through ctypes.  Where it is missing (another Unix) each function says so with
False and the caller falls back to process groups.
"""

import ctypes
import functools
import os
import signal

# from linux/prctl.h
_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> bool:
    try:
        return int(_libc().prctl(option, ctypes.c_ulong(value), 0, 0, 0)) == 0
    except AttributeError:  # no prctl outside Linux
        return False


def die_with_parent(parent_pid: int) -> None:
    """Ask for SIGKILL at the parent's end; to be called in a fresh child, before exec.

    A parent that is gone already can send nothing, so the child looks once, and leaves.
    """
    if _prctl(_SET_PDEATHSIG, signal.SIGKILL) and os.getppid() != parent_pid:
        os._exit(SIGKILLED)


SIGKILLED = 128 + signal.SIGKILL


def adopt_orphans(on: bool) -> bool:  # noqa: FBT001 - the kernel's own switch
    """Become (or cease to be) the process that orphaned descendants are handed to."""
    return _prctl(_SET_CHILD_SUBREAPER, int(on))
