"""Boxes: directories of Trainshed in the kernel's cgroup trees, around the processes of a job.

One write to ``cgroup.kill`` kills all processes in a box of cgroup2, even while they fork.  This
needs no cgroup controllers.  So it works on machines with only cgroup2 and on machines with both
versions, if this process may write to its cgroup2 directory (docs/sources/slurm.md 6).  In a box
of the v1 freezer, this module freezes all processes, kills them one by one and thaws them.  If it
can make neither box, only a search of all descendants finds the processes.

The first move of a process into a box takes 5 to 10 ms.  Further moves right after the first take
0.1 ms, also in other trees.  So a process moves into all of its boxes at once.

The owner of a box holds its lock (flock).  An unlocked box belongs to a killed process: the next
process that makes a box beside it kills the processes in it and removes it.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import suppress

from trainshed.engines.processes.tree import kill_listed, read, write

_PREFIX = "trainshed-"
_TRIES = 3
_EMPTY_S_MAX = 1.0
_FREEZE_S_MAX = 0.5
_POLL_S = 0.002


class Box:
    """One cgroup directory, and the descriptor that holds the lock of the directory."""

    __slots__ = ("lock", "path")

    def __init__(self, path: str, lock: int) -> None:
        """Own a directory that the caller has locked."""
        self.path = path
        self.lock = lock

    def remove(self) -> None:
        """Remove the empty directory; wait up to a second for killed processes to leave."""
        remove(self.path)

    def release(self) -> None:
        """Release the lock; call this once, as the last method."""
        os.close(self.lock)


def own_directory(controller: str = "") -> str | None:
    """Return the directory of this process in the tree of a v1 controller, or in cgroup2 (``""``).

    None: this machine has no such tree, or this process cannot see it.
    """
    try:
        memberships = read("/proc/self/cgroup").splitlines()
        mounts = read("/proc/self/mountinfo").splitlines()
    except OSError:
        return None
    for line in memberships:
        _, names, place = line.split(":", 2)
        if controller in names.split(","):
            for root, point in _list_mount_points(mounts, controller):
                if os.path.isdir(path := point + _make_relative(place, root)):
                    return path.rstrip("/")
    return None


def make_box(home: str, name: str) -> Box | None:
    """Make and lock a box below ``home``, with ``name`` in its own name; None if that fails."""
    for _ in range(_TRIES):
        path = f"{home}/{_PREFIX}{name}-{os.getpid()}-{time.monotonic_ns()}"
        try:
            os.mkdir(path)
        except OSError:
            return None
        lock = try_lock(path)
        if lock is not None:
            return Box(path, lock)
        with suppress(OSError):  # another process found it unlocked and may have removed it
            os.rmdir(path)
    return None


def try_lock(path: str) -> int | None:
    """Lock a directory; return the open descriptor that holds the lock, or None if that fails."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.stat(path).st_ino == os.fstat(lock).st_ino:
            return lock
    except OSError:
        pass
    os.close(lock)
    return None


def end_abandoned(home: str) -> None:
    """Kill the processes in boxes below ``home`` whose owners were killed.

    Boxes of living owners are locked, and this function leaves them alone.
    """
    with suppress(OSError):
        for name in os.listdir(home):
            if name.startswith(_PREFIX):
                end_box(f"{home}/{name}")


def end_box(path: str) -> bool:
    """Kill the processes in a box and remove it; False: its owner lives and holds the lock."""
    if not is_box(path):
        return True
    lock = try_lock(path)
    if lock is None:
        return not is_box(path)
    try:
        kill_inside(path)
        remove(path)
    finally:
        os.close(lock)
    return True


def is_box(path: str) -> bool:
    """Return whether a path is a box: a directory of Trainshed in a cgroup tree."""
    name = path.rpartition("/")[2]
    return name.startswith(_PREFIX) and os.access(path + "/cgroup.procs", os.F_OK)


def kill_inside(path: str) -> None:
    """SIGKILL every process in a directory and below it; use the fastest way that works."""
    if not kill_at_once(path) and not kill_frozen(path):
        kill_listed(lambda: processes(path))


def kill_at_once(path: str) -> bool:
    """SIGKILL all processes at once (Linux 5.14 and later); False: the tree cannot do that."""
    try:
        write(path + "/cgroup.kill", "1")
    except OSError:
        return False
    return True


def kill_frozen(path: str) -> bool:
    """Freeze all processes, SIGKILL them, and thaw; False: this is not the v1 freezer's tree.

    A process that does not freeze within half a second is killed too.  The function thaws all
    directories below, because an earlier process that was killed here may have left some frozen.
    """
    try:
        write(path + "/freezer.state", "FROZEN")
    except OSError:
        return False
    deadline = time.monotonic() + _FREEZE_S_MAX
    with suppress(OSError):
        while read(path + "/freezer.state") != "FROZEN\n" and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    kill_listed(lambda: processes(path))
    for directory in _list_directories(path):
        with suppress(OSError):
            write(directory + "/freezer.state", "THAWED")
    return True


def processes(path: str) -> list[int]:
    """List the pids of the processes in a directory and below it, without zombies."""
    pids: list[int] = []
    for directory in _list_directories(path):
        with suppress(OSError):
            pids += map(int, read(directory + "/cgroup.procs").split())
    return pids


def populated(path: str) -> bool:
    """Return whether a process lives in a directory or below it."""
    try:
        return "populated 1" in read(path + "/cgroup.events")
    except OSError:  # a v1 tree has no such file
        return bool(processes(path))


def remove(path: str) -> None:
    """Remove a directory and those below it; wait up to a second for killed processes to leave."""
    deadline = time.monotonic() + _EMPTY_S_MAX
    while not _remove(path) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _list_mount_points(mounts: list[str], controller: str) -> Iterator[tuple[str, str]]:
    """Yield (mounted directory, mount point) of each mount of a tree.

    ``mounts`` are lines of /proc/self/mountinfo; proc(5) describes the format.
    """
    for line in mounts:
        fields, _, tail = line.partition(" - ")
        kind, _, options = tail.split(" ", 2)
        if kind == ("cgroup" if controller else "cgroup2") and (
            not controller or controller in options.split(",")
        ):
            yield tuple(fields.split(" ")[3:5])  # type: ignore[misc] # two fields


def _make_relative(place: str, root: str) -> str:
    """Return a directory relative to ``root``, the mounted directory.

    A container often mounts only its own part of the tree.
    """
    return place[len(root) :] if root != "/" and place.startswith(root) else place


def _list_directories(path: str) -> list[str]:
    """List a directory and all below it, the deepest first."""
    directories = [path]
    for directory in directories:
        with suppress(OSError):
            directories += [entry.path for entry in os.scandir(directory) if entry.is_dir()]
    return directories[::-1]


def _remove(path: str) -> bool:
    """Remove a directory and those below it; False: one of them still has a process."""
    for directory in _list_directories(path):
        try:
            os.rmdir(directory)
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True
