"""Memory limits of containers by control groups of version 1 or 2, where this machine lets us."""

import itertools
import os
from contextlib import suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
_numbers = itertools.count(1)


class MemoryGroup:
    """A group with a limit; a process joins it by writing ``0`` into ``members``."""

    def __init__(self, folder, limit_bytes):
        self._folder = folder
        folder.mkdir()
        self._is_second = (folder / "memory.max").exists()
        name = "memory.max" if self._is_second else "memory.limit_in_bytes"
        (folder / name).write_text(str(limit_bytes))
        swap = "memory.swap.max" if self._is_second else "memory.memsw.limit_in_bytes"
        with suppress(OSError):  # a kernel without accounts of swap
            (folder / swap).write_text("0" if self._is_second else str(limit_bytes))
        self.members = folder / "cgroup.procs"

    @property
    def has_killed(self):
        """Whether the kernel ended a process because the memory ran out; False once removed."""
        name = "memory.events" if self._is_second else "memory.oom_control"
        try:
            text = (self._folder / name).read_text()
        except FileNotFoundError:
            return False
        rows = dict(line.split() for line in text.splitlines())
        return int(rows.get("oom_kill", 0)) > 0

    def remove(self):
        """Remove an empty group; False while it has processes."""
        with suppress(FileNotFoundError):
            try:
                self._folder.rmdir()
            except OSError:
                return False
        return True


def find_parent():
    """The folder of this process's memory group, or None where it may not have children."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        first = ROOT / "memory" / path.lstrip("/")
        if "memory" in controllers.split(",") and os.access(first, os.W_OK):
            return first
        second = ROOT / path.lstrip("/")
        if not controllers and "memory" in _controllers_of(second) and os.access(second, os.W_OK):
            return second
    return None


def make_group(limit_bytes):
    """A new group under this process's, or None."""
    parent = find_parent()
    if parent is None:
        return None
    return MemoryGroup(parent / f"trainshed-pod-{os.getpid()}-{next(_numbers)}", limit_bytes)


def _controllers_of(folder):
    path = folder / "cgroup.subtree_control"
    return path.read_text().split() if path.exists() else ()
