"""A cgroup2 leaf around the processes of a job: one write kills them all, however they forked.

``cgroup.kill`` needs no controllers and works on pure and hybrid machines wherever our own cgroup2
directory is writable (contracts/engines.md section 6).  Where it is not there is no leaf, and the
sweep over descendants does the work alone.

Moving one process takes 5 to 10 ms here, so the supervisor moves itself in, starts the replicas,
which are born inside, and moves out again: the price does not grow with the replicas.

A leaf is locked (flock) by those who own it.  An unlocked one belongs to a launcher whose
supervisor was killed too: the next launcher ends what it left.
"""

import fcntl
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "trainshed-"
_EMPTY_S_MAX = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One cgroup directory, and the open descriptor that holds its lock."""

    path: Path
    lock: int

    def enter(self) -> None:
        """Move the calling process in; children are born inside from now on."""
        (self.path / "cgroup.procs").write_text("0", encoding="ascii")

    def leave(self) -> None:
        """Move the calling process back to where it came from."""
        (self.path.parent / "cgroup.procs").write_text("0", encoding="ascii")

    def kill(self) -> None:
        """SIGKILL every process inside, at one moment for all (Linux 5.14 and later)."""
        with suppress(OSError):
            (self.path / "cgroup.kill").write_text("1", encoding="ascii")

    def remove(self) -> None:
        """Remove the empty directory; killed processes may need a moment to leave it."""
        deadline = time.monotonic() + _EMPTY_S_MAX
        while not _removed(self.path) and time.monotonic() < deadline:
            time.sleep(0.005)

    def release(self) -> None:
        """Give up the lock in this process; once, and last."""
        os.close(self.lock)


def make_leaf() -> Leaf | None:
    """Make a leaf below our own cgroup, or None where that is not allowed."""
    home = _own_directory()
    if home is None or not os.access(home / "cgroup.procs", os.W_OK):
        return None
    _end_abandoned(home)
    path = home / f"{_PREFIX}{os.getpid()}-{time.monotonic_ns()}"
    try:
        path.mkdir()
    except OSError:
        return None
    lock = _locked(path) if (path / "cgroup.kill").exists() else None
    if lock is None:
        with suppress(OSError):
            path.rmdir()
        return None
    return Leaf(path=path, lock=lock)


def _locked(path: Path) -> int | None:
    """An open descriptor that holds the lock of a directory, or None where that fails."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _own_directory() -> Path | None:
    """Where the cgroup2 tree is mounted, and our place in it."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
        places = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    roots = [line.split()[4] for line in mounts if " - cgroup2 " in line]
    own = [line[3:] for line in places if line.startswith("0::")]
    if not roots or not own:
        return None
    directory = Path(roots[0] + own[0])
    return directory if directory.is_dir() else None


def _end_abandoned(home: Path) -> None:
    for path in home.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # somebody else was quicker
            leaf = Leaf(path=path, lock=os.open(path, os.O_RDONLY | os.O_DIRECTORY))
            try:
                fcntl.flock(leaf.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                leaf.kill()
                leaf.remove()
            finally:
                leaf.release()


def _removed(path: Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
