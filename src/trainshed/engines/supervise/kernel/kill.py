"""Ends every process of an attempt, by the best strategies that the machine has.

The strategies, best first (docs/sources/slurm.md 6): ``cgroup.kill`` ends all processes of a
cgroup2 directory at once; the v1 freezer replaces it on older machines; the sweep finds all
descendants of the supervisor, which is a subreaper; ``killpg`` remains if neither cgroups nor /proc
list the processes.  The best is used first, then all weaker ones: each finds processes that the
ones before have missed.

A kill does not wait: a process may take a moment to end after SIGKILL.  The caller repeats the kill
while ``living`` is True.
"""

import os
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from trainshed.engines.processes import cgroup, tree
from trainshed.engines.processes import mark as marks
from trainshed.engines.supervise.kernel import cgroups, limits
from trainshed.engines.supervise.kernel.cgroups import (
    FREEZER,
    UNIFIED,
    AttemptCgroups,
    make_cgroups,
)
from trainshed.engines.supervise.kernel.limits import ReplicaLimits, Usage

CGROUP_KILL: Final = "cgroup.kill"
V1_FREEZER: Final = "v1 freezer"
SWEEP: Final = "subreaper sweep"
KILLPG: Final = "killpg"

#: Every strategy, best first.
KILL_STRATEGIES: Final = (CGROUP_KILL, V1_FREEZER, SWEEP, KILLPG)
#: The strategies of a supervisor or warden in a cluster, whose boxes the cluster makes and empties.
WITHOUT_BOXES: Final = (SWEEP, KILLPG)

_NS_PER_S: Final = 1_000_000_000
_KIB: Final = 1024


def open_process_tree(
    name: str,
    count: int,
    limits: Sequence[ReplicaLimits] = (),
    *,
    mark: str = "",
    allow: Collection[str] = KILL_STRATEGIES,
) -> "ProcessTree":
    """Make the boxes of an attempt of ``count`` replicas; its supervisor calls this.

    ``name`` becomes part of the names of the cgroup directories.  ``limits`` are by index; empty:
    no replica has limits.  ``mark`` is UID/ATTEMPT.  ``allow`` are the strategies that may be used.
    If the sweep is one of them, the calling process becomes a subreaper: it adopts orphans.
    """
    cgroups = make_cgroups(
        name, count, limits, unified=CGROUP_KILL in allow, freezer=V1_FREEZER in allow
    )
    available = {
        CGROUP_KILL: UNIFIED in cgroups.boxes,
        V1_FREEZER: FREEZER in cgroups.boxes,
        SWEEP: SWEEP in allow and tree.adopt_orphans(True) and tree.can_list(),
        KILLPG: KILLPG in allow,
    }
    return ProcessTree(cgroups, tuple(filter(available.get, KILL_STRATEGIES)), count, mark)


def find_box_strategy() -> str:
    """Return the strategy that kills the processes in boxes; empty if boxes cannot be made."""
    own = cgroup.own_directory()
    if own and cgroups.writable(own):
        has_kill = os.path.exists(own + "/cgroup.kill")
        # the root directory of cgroup2 has neither of these files
        is_root = not os.path.exists(own + "/cgroup.events")
        if has_kill or is_root:
            return CGROUP_KILL
    freezer = cgroup.own_directory(FREEZER)
    return V1_FREEZER if freezer and cgroups.writable(freezer) else ""


class ProcessTree:
    """The boxes of one attempt, and the strategies that end its processes."""

    __slots__ = ("_cgroups", "_machine_oom_kills", "_mark", "_peaks", "_pids", "strategies")

    def __init__(
        self, cgroups: AttemptCgroups, strategies: tuple[str, ...], count: int, mark: str
    ) -> None:
        self._cgroups = cgroups
        self._mark = marks.limit_of(mark) if mark else None
        self._pids: dict[int, int] = {}
        self._peaks = [_Peaks() for _ in range(count)]
        self._machine_oom_kills = limits.machine_oom_kills()
        self.strategies = strategies
        """The strategies of this machine, best first, for the job's log."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about the limits that this machine cannot enforce."""
        return self._cgroups.remarks

    @property
    def has_boxes(self) -> bool:
        """Whether boxes list the processes of replicas; otherwise a search finds them."""
        return bool(self._cgroups.boxes)

    @property
    def places(self) -> dict[str, Any]:
        """The paths of the boxes; ``end_leftovers`` needs them if this process is killed."""
        return {"boxes": [box.path for box in self._cgroups.boxes.values()]}

    def enter(self, index: int, uid: int | None = None) -> bool:
        """Mark the calling process, a new fork, and move it into a replica's boxes; never raises.

        ``uid`` is the user that the process becomes afterwards; None: it keeps its user.  False:
        the process is not in all boxes, so limits may not hold, and weaker strategies end it.
        """
        if self._mark is not None:
            marks.mark_self(self._mark)
        return self._cgroups.enter(index, uid)

    def add_replica(self, index: int, pid: int) -> None:
        """Add the pid of a replica: a child of this process that leads a session."""
        self._pids[index] = pid

    def add_usage(self, index: int, cpu_s: float, max_rss_kib: int) -> None:
        """Add the usage of an ended replica, from ``os.wait4``.

        Without this, the peak of a replica that ends before the first sample is unknown.
        """
        peaks = self._peaks[index]
        peaks.add(int(cpu_s * _NS_PER_S), max_rss_kib * _KIB)
        peaks.machine_oom_kills = limits.machine_oom_kills() - self._machine_oom_kills

    def kill(self) -> None:
        """SIGKILL every process of the attempt; never raises."""
        for tree_name, box in self._cgroups.boxes.items():
            if tree_name in _KILL:
                _KILL[tree_name](box.path)
        if SWEEP in self.strategies:
            tree.kill_listed(_own_descendants)
        if KILLPG in self.strategies:
            for pid in self._pids.values():
                _kill_group(pid)

    def living(self) -> bool | None:
        """Return whether a process of the attempt lives; None if no strategy can tell.

        With the sweep, every descendant of this process counts, including helpers of the
        supervisor.  Zombies do not count.
        """
        boxes = [box for name, box in self._cgroups.boxes.items() if name in _KILL]
        if any(cgroup.populated(box.path) for box in boxes):
            return True
        if SWEEP in self.strategies:
            return bool(tree.living(_own_descendants()))
        return False if boxes else None

    def usage(self, index: int) -> Usage:
        """Return what a replica has used so far; call this before ``remove``.

        If the memory of the replica is not limited, the peak is the largest value that this method
        has measured.
        """
        leaves = self._cgroups.leaves(index)
        in_use = limits.memory_bytes(leaves)
        peak = limits.peak_bytes(leaves)
        cpu_ns = limits.cpu_ns(leaves)
        io_bytes, tasks = limits.io_bytes(leaves), limits.tasks(leaves)
        peaks = self._peaks[index]
        if None in {in_use, cpu_ns, io_bytes, tasks}:
            sample = limits.sample(self._list_members(index))
            if sample is not None:
                peaks.add(sample.cpu_ns, max(sample.memory_bytes, sample.largest_bytes))
                in_use = sample.memory_bytes if in_use is None else in_use
                io_bytes = sample.io_bytes if io_bytes is None else io_bytes
                tasks = sample.tasks if tasks is None else tasks
        return Usage(
            cpu_ns=peaks.cpu_ns if cpu_ns is None else cpu_ns,
            memory_bytes=in_use,
            peak_bytes=peaks.peak_bytes if peak is None else peak,
            oom_kills=limits.oom_kills(leaves),
            refused_forks=limits.refused_forks(leaves),
            machine_oom_kills=peaks.machine_oom_kills,
            read_bytes=None if io_bytes is None else io_bytes[0],
            written_bytes=None if io_bytes is None else io_bytes[1],
            tasks=tasks,
        )

    def remove(self) -> None:
        """Remove the empty boxes; never raises, and waits at most one second."""
        self._cgroups.remove()

    def _list_members(self, index: int) -> Collection[int]:
        for leaf in self._cgroups.leaves(index).values():
            return cgroup.processes(leaf)
        pid = self._pids.get(index)
        return () if pid is None else _list_replica_processes(pid)


class _Peaks:
    """The largest values measured for a replica."""

    __slots__ = ("cpu_ns", "machine_oom_kills", "peak_bytes")

    def __init__(self) -> None:
        self.cpu_ns: int | None = None
        self.peak_bytes: int | None = None
        self.machine_oom_kills = 0

    def add(self, cpu_ns: int, peak_bytes: int) -> None:
        self.cpu_ns = max(self.cpu_ns or 0, cpu_ns)
        self.peak_bytes = max(self.peak_bytes or 0, peak_bytes)


#: Functions that kill the processes in a box, by tree; boxes of other trees only set limits.
_KILL: Final[Mapping[str, Callable[[str], bool]]] = {
    UNIFIED: cgroup.kill_at_once,
    FREEZER: cgroup.kill_frozen,
}


def _own_descendants() -> list[int]:
    return [child for _, child in tree.descendants(os.getpid())]


def _list_replica_processes(pid: int) -> set[int]:
    """List the replica's process, its descendants, and the other processes of its session."""
    pids: set[int] = set()
    for parent, child in tree.descendants(os.getpid()):
        with suppress(OSError):
            if child == pid or parent in pids or os.getsid(child) == pid:
                pids.add(child)
    return pids


def _kill_group(leader: int) -> None:
    """SIGKILL the group of a replica's process, unless its number now belongs to another program.

    The kernel does not reuse the number while the group has a member.  A living process with the
    number of a reaped leader is therefore a new one.
    """
    with suppress(OSError):
        if _is_gone(leader) or _is_child(leader):
            os.killpg(leader, signal.SIGKILL)


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def _is_child(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
