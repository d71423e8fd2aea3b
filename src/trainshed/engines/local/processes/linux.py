"""The few things Linux offers for owning a tree of processes and Python has no name for.

``prctl`` is reached through ctypes.  Where it is missing (another Unix) each function says so with
False and the caller falls back to process groups.
"""

import ctypes
import functools
import os
import signal

from trainshed.engines.local.processes.tree import read

# from linux/prctl.h
_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36

# positions in /proc/PID/stat after the command's closing bracket, proc(5) fields 48 and 49
_ARG_START, _ARG_END = 48 - 3, 49 - 3


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> bool:
    try:
        return int(_libc().prctl(option, ctypes.c_ulong(value), 0, 0, 0)) == 0
    except AttributeError:  # no prctl outside Linux
        return False


def prepare_prctl() -> None:
    """Load the C library now, so that a forked child need not."""
    _libc()


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


def show_as(title: str) -> None:
    """Change the command line that ``ps`` shows for this process; harmless where impossible.

    The supervisor is a fork of the launcher.  Under its own name it is recognised, and a signal
    that somebody sends to every process with the launcher's command line does not find it.
    """
    try:
        fields = read("/proc/self/stat").rpartition(")")[2].split()
        start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    except (OSError, ValueError, IndexError):
        return
    room = end - start
    if start and room > 1:
        ctypes.memmove(start, title.encode()[: room - 1].ljust(room, b"\0"), room)
