"""Descendants of a process: found through /proc, signalled without hitting a reused pid.

Process groups alone are not enough: a trainer that calls ``setsid`` leaves its group
(docs/sources/slurm.md 6), but it cannot leave the descendants of a subreaper.
"""

import ctypes
import functools
import os
import signal
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress

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


_PASSES_MAX = 200
_QUIET_PASSES = 2
_UNPINNED = -1

# positions in /proc/PID/stat after the command's closing bracket, proc(5) fields 3, 4 and 20
_STATE, _PARENT, _THREADS = 3 - 3, 4 - 3, 20 - 3


def can_list() -> bool:
    """Whether this kernel tells the children of a process."""
    me = os.getpid()
    return os.path.exists(f"/proc/{me}/task/{me}/children")


def children(pid: int) -> list[int]:
    """The living and unreaped children of all threads of a process; empty if it is gone."""
    pids: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                pids += map(int, read(f"/proc/{pid}/task/{thread}/children").split())
    return pids


def descendants(pid: int) -> Iterator[tuple[int, int]]:
    """Every (parent, child) below a process, parents first, however deep they lie."""
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        for child in children(parent):
            yield parent, child
            waiting.append(child)


def living(pids: Iterable[int]) -> list[int]:
    """Those of some processes that can still run: neither gone nor waiting to be reaped."""
    return [pid for pid in pids if _lives(pid)]


def send(pid: int, parents: Iterable[int], sig: signal.Signals) -> None:
    """Send a signal to ``pid`` if it still is a child of one of ``parents``.

    The pid may have been given to a stranger since it was listed.  A pidfd pins the process; the
    look at its parent after that makes sure that it is the one that was meant.
    """
    with suppress(OSError):
        pinned = _pin(pid)
        try:
            if parent_of(pid) in parents:
                _signal(pid, pinned, sig)
        finally:
            _unpin(pinned)


def send_to_all(listed: Iterable[tuple[int, int]], adopter: int, sig: signal.Signals) -> None:
    """Send a signal to descendants listed before.

    A parent that has ended since has left its children to ``adopter``.  Listing comes before the
    first signal: while a parent ends, a walk down the tree misses the children that change hands.
    """
    for parent, child in listed:
        send(child, (parent, adopter), sig)


def kill_listed(listed: Callable[[], Collection[int]]) -> None:
    """SIGKILL the processes that ``listed`` finds, until it finds no new one twice.

    A process that has been sent SIGKILL forks no more, so this ends however its children fork
    meanwhile; twice, because one that changes parents is missed by a walk.  It does not wait until
    the killed are gone.  Each is pinned, then looked up again, so that no reused pid is hit.
    """
    killed: set[int] = set()
    quiet = 0
    for _ in range(_PASSES_MAX):
        new = [pid for pid in listed() if pid not in killed]
        quiet = 0 if new else quiet + 1
        if quiet == _QUIET_PASSES:
            return
        if new:
            killed |= _kill_confirmed(new, listed)


def parent_of(pid: int) -> int:
    """The parent of a process; 0 has none.  Raises OSError when it is gone."""
    return int(stat_fields(pid)[_PARENT])


def ancestors(pid: int) -> Iterator[int]:
    """A process, its parent, and so on.  Raises OSError where one of them ends meanwhile."""
    while pid > 0:
        yield pid
        pid = parent_of(pid)


def read(path: str) -> str:
    """The text of a file of the kernel's.  Raises OSError."""
    return read_bytes(path).decode("utf-8", "replace")


def read_bytes(path: str) -> bytes:
    """The content of a file of the kernel's.  Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def write(path: str, text: str) -> None:
    """Write to a file of the kernel's, which is never made.  Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode("ascii"))
    finally:
        os.close(descriptor)


def _kill_confirmed(pids: Iterable[int], listed: Callable[[], Collection[int]]) -> set[int]:
    """SIGKILL those that are listed still once they are pinned, and give them."""
    pinned: dict[int, int] = {}
    try:
        for pid in pids:
            with suppress(ProcessLookupError):
                pinned[pid] = _pin(pid)
        confirmed = set(listed()).intersection(pinned)
        for pid in confirmed:
            with suppress(OSError):
                _signal(pid, pinned[pid], signal.SIGKILL)
    finally:
        for descriptor in pinned.values():
            _unpin(descriptor)
    return confirmed


def _pin(pid: int) -> int:
    """A descriptor that holds on to the process.  Raises ProcessLookupError when it is gone."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (OSError, AttributeError):  # an old kernel, a sandbox, another Unix, no descriptors
        return _UNPINNED


def _unpin(pinned: int) -> None:
    if pinned != _UNPINNED:
        os.close(pinned)


def _signal(pid: int, pinned: int, sig: signal.Signals) -> None:
    if pinned == _UNPINNED:
        os.kill(pid, sig)
    else:
        signal.pidfd_send_signal(pinned, sig)


def _lives(pid: int) -> bool:
    """A first thread that has ended is shown as a zombie while the others go on."""
    try:
        stat = stat_fields(pid)
    except OSError:
        return False
    return stat[_STATE] not in "ZX" or int(stat[_THREADS]) > 1


def stat_fields(pid: int) -> list[str]:
    """What /proc/PID/stat says behind the command's closing bracket.  Raises OSError."""
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()
