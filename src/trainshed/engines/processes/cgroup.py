"""Directories of our own in the kernel's cgroup trees, each a box around the processes of a job.

A box of cgroup2 is emptied by one write to ``cgroup.kill``, however its processes fork; that needs
no controllers, so it works on pure and hybrid machines wherever our own cgroup2 directory is
writable (docs/sources/slurm.md 6).  A box of the v1 freezer is frozen, killed pid by pid
and thawed.  Where neither can be made, the sweep over descendants does the work alone.

The first process that is moved pays 5 to 10 ms here, those right after it 0.1 ms, also into other
trees; so a process moves into all of its boxes in one go.

The owner of a box holds its lock (flock).  An unlocked box belongs to a killed process:
the next one who makes a box beside it ends what was left.
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
    """One cgroup directory, and the open descriptor that holds its lock."""

    __slots__ = ("lock", "path")

    def __init__(self, path: str, lock: int) -> None:
        """Take over a directory that has been locked."""
        self.path = path
        self.lock = lock

    def remove(self) -> None:
        """Remove the empty directory; killed processes may need a moment to leave it."""
        remove(self.path)

    def release(self) -> None:
        """Give up the lock in this process; once, and last."""
        os.close(self.lock)


def own_directory(controller: str = "") -> str | None:
    """Our place in the tree of a v1 controller, or without a name in that of cgroup2."""
    try:
        places = read("/proc/self/cgroup").splitlines()
        mounts = read("/proc/self/mountinfo").splitlines()
    except OSError:
        return None
    for line in places:
        _, names, place = line.split(":", 2)
        if controller in names.split(","):
            for root, point in _mount_points(mounts, controller):
                if os.path.isdir(path := point + _relative_place(place, root)):
                    return path.rstrip("/")
    return None


def make_box(home: str, name: str) -> Box | None:
    """Make and lock a directory whose name begins with ``name``, or None where that fails."""
    for _ in range(_TRIES):
        path = f"{home}/{_PREFIX}{name}-{os.getpid()}-{time.monotonic_ns()}"
        try:
            os.mkdir(path)
        except OSError:
            return None
        lock = lock_of(path)
        if lock is not None:
            return Box(path, lock)
        with suppress(OSError):  # taken for abandoned between the two, and removed
            os.rmdir(path)
    return None


def lock_of(path: str) -> int | None:
    """An open descriptor that holds the lock of a directory, or None where that fails."""
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
    """End what is left in boxes whose owners were killed; those of living owners are locked."""
    with suppress(OSError):
        for name in os.listdir(home):
            if name.startswith(_PREFIX):
                end_box(f"{home}/{name}")


def end_box(path: str) -> bool:
    """Kill what is in a box and remove it; False: it is locked, by an owner who lives."""
    if not is_box(path):
        return True
    lock = lock_of(path)
    if lock is None:
        return not is_box(path)
    try:
        kill_inside(path)
        remove(path)
    finally:
        os.close(lock)
    return True


def is_box(path: str) -> bool:
    """Whether a path is one of our own directories in a cgroup tree."""
    name = path.rpartition("/")[2]
    return name.startswith(_PREFIX) and os.access(path + "/cgroup.procs", os.F_OK)


def kill_inside(path: str) -> None:
    """SIGKILL every process in a directory and below it, in the best way that its tree has."""
    if not kill_at_once(path) and not kill_frozen(path):
        kill_listed(lambda: processes(path))


def kill_at_once(path: str) -> bool:
    """SIGKILL all at one moment (Linux 5.14 and later); False where that is not possible."""
    try:
        write(path + "/cgroup.kill", "1")
    except OSError:
        return False
    return True


def kill_frozen(path: str) -> bool:
    """Freeze, SIGKILL every process, thaw; False where the tree is not the v1 freezer's.

    A process that cannot be frozen in time is killed all the same.  Whoever was killed while they
    froze a box left it frozen, and a part of it perhaps: everything is thawed.
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
    for directory in _directories(path):
        with suppress(OSError):
            write(directory + "/freezer.state", "THAWED")
    return True


def processes(path: str) -> list[int]:
    """The processes in a directory and below it; zombies are in none."""
    pids: list[int] = []
    for directory in _directories(path):
        with suppress(OSError):
            pids += map(int, read(directory + "/cgroup.procs").split())
    return pids


def populated(path: str) -> bool:
    """Whether a process lives in a directory or below it."""
    try:
        return "populated 1" in read(path + "/cgroup.events")
    except OSError:  # a v1 tree has no such file
        return bool(processes(path))


def remove(path: str) -> None:
    """Remove a directory with those below it, waiting a moment until killed processes left."""
    deadline = time.monotonic() + _EMPTY_S_MAX
    while not _remove(path) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _mount_points(mounts: list[str], controller: str) -> Iterator[tuple[str, str]]:
    """(what is mounted, where) of each mount of a tree; proc(5) says how the lines are built."""
    for line in mounts:
        fields, _, tail = line.partition(" - ")
        kind, _, options = tail.split(" ", 2)
        if kind == ("cgroup" if controller else "cgroup2") and (
            not controller or controller in options.split(",")
        ):
            yield tuple(fields.split(" ")[3:5])  # type: ignore[misc] # two fields


def _relative_place(place: str, root: str) -> str:
    """Our place relative to what is mounted; a container often mounts its own place only."""
    return place[len(root) :] if root != "/" and place.startswith(root) else place


def _directories(path: str) -> list[str]:
    """A directory and all below it, the deepest first."""
    directories = [path]
    for directory in directories:
        with suppress(OSError):
            directories += [entry.path for entry in os.scandir(directory) if entry.is_dir()]
    return directories[::-1]


def _remove(path: str) -> bool:
    for directory in _directories(path):
        try:
            os.rmdir(directory)
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True
