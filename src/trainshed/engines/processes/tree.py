"""Lists the descendants of a process by /proc, and sends signals to them, not to reused pids.

Process groups alone are not enough: a trainer that calls ``setsid`` leaves its group
(docs/sources/slurm.md 6), but it remains a descendant of a subreaper.

A reaper imports this module and lives as long as its attempt.  So this module does without signal,
which imports enum, and without contextlib and functools: all of them need 0.6 MB.
"""

import ctypes
import os
from collections.abc import Callable, Collection, Iterable, Iterator

TYPE_CHECKING = False  # as typing has it, which a reaper does not import
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

# from linux/prctl.h
_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36
_SET_DUMPABLE = 4


_LIBC = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> bool:
    try:
        return int(_LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0)) == 0
    except AttributeError:  # no prctl outside Linux
        return False


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel SIGKILL this process at its parent's end; call this in a fork, before exec.

    If the parent has ended before this call, the kernel sends no signal: then exit at once.
    """
    if _prctl(_SET_PDEATHSIG, signal.SIGKILL) and os.getppid() != parent_pid:
        os._exit(SIGKILLED)


SIGKILLED = 128 + signal.SIGKILL


def adopt_orphans(on: bool) -> bool:  # noqa: FBT001 - the kernel's own switch
    """Become, or cease to be, a subreaper: a process that adopts its orphaned descendants.

    Return whether the kernel supports that.
    """
    return _prctl(_SET_CHILD_SUBREAPER, int(on))


def hide_memory() -> bool:
    """Hide the memory and the environment of this process, and of its forks until they exec.

    Then only processes with a capability that containers lack by default (CAP_SYS_PTRACE; for
    newer kernels, CAP_PERFMON and CAP_SYS_ADMIN too) can read them in /proc.  Return whether the
    kernel supports that.
    """
    return _prctl(_SET_DUMPABLE, 0)


_PASSES_MAX = 200
_QUIET_PASSES = 2
_UNPINNED = -1

# positions in /proc/PID/stat after the command's closing bracket, proc(5) fields 3, 4 and 20
_STATE, _PARENT, _THREADS = 3 - 3, 4 - 3, 20 - 3


def can_list() -> bool:
    """Return whether this kernel lists the children of a process."""
    own_pid = os.getpid()
    return os.path.exists(f"/proc/{own_pid}/task/{own_pid}/children")


def children(pid: int) -> list[int]:
    """List the children of all threads of a process, with zombies; empty if it has ended."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [child for thread in threads for child in _children_of_thread(pid, thread)]


def _children_of_thread(pid: int, thread: str) -> list[int]:
    try:
        return list(map(int, read(f"/proc/{pid}/task/{thread}/children").split()))
    except OSError:
        return []


def descendants(pid: int) -> Iterator[tuple[int, int]]:
    """Yield every (parent, child) below a process at any depth, parents first."""
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        for child in children(parent):
            yield parent, child
            waiting.append(child)


def living(pids: Iterable[int]) -> list[int]:
    """Select the processes that live; zombies do not count as living."""
    return [pid for pid in pids if _lives(pid)]


def send(pid: int, parents: Iterable[int], sig: "signal.Signals") -> None:
    """Send a signal to ``pid`` if it still is a child of one of ``parents``.

    The kernel may have given the pid to another process since it was listed.  A pidfd pins the
    process; the check of its parent after that ensures that it is the listed one.
    """
    try:
        pinned = _pin(pid)
        try:
            if parent_of(pid) in parents:
                _signal(pid, pinned, sig)
        finally:
            _unpin(pinned)
    except OSError:
        return


def send_to_all(pairs: Iterable[tuple[int, int]], adopter: int, sig: "signal.Signals") -> None:
    """Send a signal to each child in (parent, child) ``pairs``, which the caller listed before.

    If a parent has ended since then, its children belong to ``adopter``.  The caller must list all
    descendants before the first signal: a walk down the tree misses children whose parent changes.
    """
    for parent, child in pairs:
        send(child, (parent, adopter), sig)


def kill_listed(list_pids: Callable[[], Collection[int]]) -> None:
    """SIGKILL the processes that ``list_pids`` returns, until two calls return no new process.

    A process cannot fork after SIGKILL, so the loop ends even while other processes fork.  One call
    without a new process is not enough: ``list_pids`` may miss a process whose parent changes.
    The function does not wait until the processes have ended.  It pins each process and lists it
    again before the signal, so that no signal hits a reused pid.
    """
    killed: set[int] = set()
    quiet = 0
    for _ in range(_PASSES_MAX):
        new = [pid for pid in list_pids() if pid not in killed]
        quiet = 0 if new else quiet + 1
        if quiet == _QUIET_PASSES:
            return
        if new:
            killed |= _kill_confirmed(new, list_pids)


def parent_of(pid: int) -> int:
    """Return the pid of the parent; 0: no parent.  Raises OSError if the process has ended."""
    return int(stat_fields(pid)[_PARENT])


def ancestors(pid: int) -> Iterator[int]:
    """Yield the pids of a process, its parent, and so on.

    Raises OSError if one of these processes ends meanwhile.
    """
    while pid > 0:
        yield pid
        pid = parent_of(pid)


def read(path: str) -> str:
    """Read a text file of /proc or a cgroup.  Raises OSError."""
    return read_bytes(path).decode("utf-8", "replace")


def read_bytes(path: str) -> bytes:
    """Read a file of /proc or a cgroup.  Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def write(path: str, text: str) -> None:
    """Write to an existing file of /proc or a cgroup.  Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode("ascii"))
    finally:
        os.close(descriptor)


def _kill_confirmed(pids: Iterable[int], list_pids: Callable[[], Collection[int]]) -> set[int]:
    """Pin the processes, SIGKILL the ones that are still listed, and return their pids."""
    pinned: dict[int, int] = {}
    try:
        for pid in pids:
            try:
                pinned[pid] = _pin(pid)
            except ProcessLookupError:
                continue
        confirmed = set(list_pids()).intersection(pinned)
        for pid in confirmed:
            try:
                _signal(pid, pinned[pid], signal.SIGKILL)
            except OSError:
                continue
    finally:
        for descriptor in pinned.values():
            _unpin(descriptor)
    return confirmed


def _pin(pid: int) -> int:
    """Return a pidfd, which keeps the pid from reuse; ``_UNPINNED`` if the system has no pidfds.

    Raises ProcessLookupError if the process has ended.
    """
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (OSError, AttributeError):  # an old kernel, a sandbox, another Unix, no descriptors
        return _UNPINNED


def _unpin(pinned: int) -> None:
    if pinned != _UNPINNED:
        os.close(pinned)


def _signal(pid: int, pinned: int, sig: "signal.Signals") -> None:
    if pinned == _UNPINNED:
        os.kill(pid, sig)
    else:
        signal.pidfd_send_signal(pinned, sig)


def _lives(pid: int) -> bool:
    """Return whether a process lives, even if its first thread has ended and shows as a zombie."""
    try:
        stat = stat_fields(pid)
    except OSError:
        return False
    return stat[_STATE] not in "ZX" or int(stat[_THREADS]) > 1


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the command's closing bracket.  Raises OSError."""
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()
