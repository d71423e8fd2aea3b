"""The end of every process of an attempt, by the best means that the machine has.

The strategies, best first (docs/sources/slurm.md 6): ``cgroup.kill`` ends a cgroup2
directory at one moment; the v1 freezer stands in where there is none; the sweep finds what the
supervisor, as a subreaper, has inherited; ``killpg`` is left where neither cgroups nor /proc say
anything.  The best is used first, then all weaker ones: each finds what escaped before.

A kill does not wait: what was sent SIGKILL may take a moment to give back its memory.  The caller
repeats it while ``living`` is True.
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
#: The strategies of a process with boxes that another process has made and empties.
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
    """Make the boxes of an attempt of ``count`` replicas; to be called by its supervisor.

    ``name`` is for people who look into the cgroup trees.  ``limits`` are by index; none at all is
    as good as none for each.  ``mark`` is UID/ATTEMPT.  ``allow`` has the strategies that may be
    used, for tests.
    The calling process becomes the one that orphans are handed to, if the sweep is allowed.
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


def by_boxes() -> str:
    """The strategy by which boxes are emptied on this machine; none if they cannot be made.

    The root of the tree itself has neither file.
    """
    own = cgroup.own_directory()
    if own and cgroups.writable(own):
        has_kill = os.path.exists(own + "/cgroup.kill")
        if has_kill or not os.path.exists(own + "/cgroup.events"):
            return CGROUP_KILL
    freezer = cgroup.own_directory(FREEZER)
    return V1_FREEZER if freezer and cgroups.writable(freezer) else ""


class ProcessTree:
    """The boxes of one attempt, and the strategies by which its processes are ended."""

    __slots__ = ("_cgroups", "_machine_oom_kills", "_mark", "_peaks", "_pids", "strategies")

    def __init__(
        self, cgroups: AttemptCgroups, strategies: tuple[str, ...], count: int, mark: str
    ) -> None:
        self._cgroups = cgroups
        self._mark = marks.limit_of(mark) if mark else None
        self._pids: dict[int, int] = {}
        self._peaks = [_Seen() for _ in range(count)]
        self._machine_oom_kills = limits.machine_oom_kills()
        self.strategies = strategies
        """The strategies of this machine, best first, for the job's log."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences on the limits that cannot be enforced here."""
        return self._cgroups.remarks

    @property
    def places(self) -> dict[str, Any]:
        """What ``end_leftovers`` needs to know, as JSON, should this process be killed."""
        return {"boxes": [box.path for box in self._cgroups.boxes.values()]}

    def enter(self, index: int, uid: int | None = None) -> bool:
        """Mark the calling process, a fresh fork, and move it into a replica's boxes; never raises.

        ``uid`` is the user that the process becomes then, if not the present one.  False: it is not
        in all boxes, so limits may not hold, and weaker strategies will end it.
        """
        if self._mark is not None:
            marks.bear(self._mark)
        return self._cgroups.enter(index, uid)

    def started(self, index: int, pid: int) -> None:
        """Learn the process of a replica: the leader of a session, and a child of this process."""
        self._pids[index] = pid

    def ended(self, index: int, cpu_s: float, max_rss_kib: int) -> None:
        """Learn what ``os.wait4`` says a replica used; it knows the peak of one that was brief."""
        peaks = self._peaks[index]
        peaks.learn(int(cpu_s * _NS_PER_S), max_rss_kib * _KIB)
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

    def kill_replica(self, index: int) -> None:
        """SIGKILL every process of one replica; never raises.

        What left its session and lost its parents is only found by the boxes.
        """
        for tree_name, leaf in self._cgroups.leaves(index).items():
            if tree_name in _KILL:
                _KILL[tree_name](leaf)
        pid = self._pids.get(index)
        if pid is None:
            return
        if SWEEP in self.strategies:
            tree.kill_listed(lambda: _of_replica(pid))
        if KILLPG in self.strategies:
            _kill_group(pid)

    def living(self) -> bool | None:
        """Whether a process of the attempt lives; None where nothing can tell.

        Where the sweep is available, every child of this process counts, also one that is no
        replica's.  Zombies do not.
        """
        boxes = [box for name, box in self._cgroups.boxes.items() if name in _KILL]
        if any(cgroup.populated(box.path) for box in boxes):
            return True
        if SWEEP in self.strategies:
            return bool(tree.living(_own_descendants()))
        return False if boxes else None

    def usage(self, index: int) -> Usage:
        """What a replica has used until now; to be asked before ``remove``, now and then.

        Where memory is not limited its peak is the largest of what was seen when asked.
        """
        leaves = self._cgroups.leaves(index)
        in_use = limits.memory_bytes(leaves)
        peak = limits.peak_bytes(leaves)
        cpu_ns = limits.cpu_ns(leaves)
        peaks = self._peaks[index]
        if in_use is None or cpu_ns is None:
            now = limits.sample(self._members(index))
            if now is not None:
                peaks.learn(now.cpu_ns, max(now.memory_bytes, now.largest_bytes))
                in_use = now.memory_bytes if in_use is None else in_use
        return Usage(
            cpu_ns=peaks.cpu_ns if cpu_ns is None else cpu_ns,
            memory_bytes=in_use,
            peak_bytes=peaks.peak_bytes if peak is None else peak,
            oom_kills=limits.oom_kills(leaves),
            refused_forks=limits.refused_forks(leaves),
            machine_oom_kills=peaks.machine_oom_kills,
        )

    def remove(self) -> None:
        """Remove the boxes, once nothing lives in them; never raises, waits a second at most."""
        self._cgroups.remove()

    def _members(self, index: int) -> Collection[int]:
        for leaf in self._cgroups.leaves(index).values():
            return cgroup.processes(leaf)
        pid = self._pids.get(index)
        return () if pid is None else _of_replica(pid)


class _Seen:
    """The largest values measured for a replica."""

    __slots__ = ("cpu_ns", "machine_oom_kills", "peak_bytes")

    def __init__(self) -> None:
        self.cpu_ns: int | None = None
        self.peak_bytes: int | None = None
        self.machine_oom_kills = 0

    def learn(self, cpu_ns: int, peak_bytes: int) -> None:
        self.cpu_ns = max(self.cpu_ns or 0, cpu_ns)
        self.peak_bytes = max(self.peak_bytes or 0, peak_bytes)


#: How the boxes of a tree are emptied; the other trees only limit.
_KILL: Final[Mapping[str, Callable[[str], bool]]] = {
    UNIFIED: cgroup.kill_at_once,
    FREEZER: cgroup.kill_frozen,
}


def _own_descendants() -> list[int]:
    return [child for _, child in tree.descendants(os.getpid())]


def _of_replica(pid: int) -> set[int]:
    """The replica's process, what is below it, and what is left of its session."""
    pids: set[int] = set()
    for parent, child in tree.descendants(os.getpid()):
        with suppress(OSError):
            if child == pid or parent in pids or os.getsid(child) == pid:
                pids.add(child)
    return pids


def _kill_group(leader: int) -> None:
    """SIGKILL a process group unless its number now belongs to a stranger.

    A number is not given away while the group has a member.  Once the leader has been reaped, a
    process of that number is therefore a new one.
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
