"""Makes the cgroup directories of one attempt: a box in each cgroup tree, and a leaf per replica.

An attempt without limits gets one box, in cgroup2: without any controller, the box can kill all
processes, show whether one lives, and count CPU time.  If that box cannot be made, a box of the v1
freezer replaces it.  Limits are set in cgroup2 if its controllers are delegated to this process,
otherwise in the v1 trees.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from trainshed.engines.processes import cgroup
from trainshed.engines.processes.tree import read, write
from trainshed.engines.supervise.kernel.limits import (
    CONTROLLERS,
    ReplicaLimits,
    Setting,
    limit_processes,
    list_controllers,
    settings_v1,
    settings_v2,
)

#: Names of trees besides those of v1 controllers.
UNIFIED: Final = ""
FREEZER: Final = "freezer"

PIDS: Final = "pids"
#: Controllers without which usage is measured process by process.
_COUNTING: Final = ("io", PIDS)

_WORDS: Final = {"memory": "memory", "cpu": "CPU"}


class AttemptCgroups(NamedTuple):
    """The boxes by tree, and sentences about limits that are not enforced."""

    boxes: dict[str, cgroup.Box]
    remarks: tuple[str, ...]
    processes_max: tuple[int | None, ...] = ()
    """The limits that ``limit_processes`` has to set, by index; empty if a box enforces them."""

    def leaf(self, tree: str, index: int) -> str:
        """Return the directory of a replica in a tree."""
        return f"{self.boxes[tree].path}/{index}"

    def leaves(self, index: int) -> dict[str, str]:
        """Return the directories of a replica by tree."""
        return {tree: self.leaf(tree, index) for tree in self.boxes}

    def enter(self, index: int, uid: int | None) -> bool:
        """Move the calling process into all leaves of a replica; return whether that succeeded.

        If no box limits the number of processes, limit it for the user ``uid`` instead; None: the
        user of this process.
        """
        processes_max = self.processes_max[index] if self.processes_max else None
        if processes_max is not None:
            limit_processes(processes_max, os.geteuid() if uid is None else uid)
        entered = True
        for leaf in self.leaves(index).values():
            try:
                write(leaf + "/cgroup.procs", "0")
            except OSError:
                entered = False
        return entered

    def remove(self) -> None:
        """Remove the boxes and release their locks; the next attempt removes any that remain."""
        for box in self.boxes.values():
            box.remove()
            box.release()
        self.boxes.clear()


def make_cgroups(
    name: str, count: int, limits: Sequence[ReplicaLimits], *, unified: bool, freezer: bool
) -> AttemptCgroups:
    """Make the boxes and leaves of ``count`` replicas; first remove boxes of killed supervisors."""
    maker = _Maker(name, count, limits)
    controllers = list_controllers(limits)
    covered: Iterable[str] = ()
    if unified:
        covered = maker.make_unified(controllers)
    if freezer and UNIFIED not in maker.boxes:
        maker.make_v1(FREEZER)
    processes_max: tuple[int | None, ...] = ()
    for controller in controllers:
        if controller in covered or maker.make_limiting(controller):
            continue
        if controller == PIDS:
            processes_max = tuple(limit.pids for limit in limits)
        else:
            maker.remarks.append(
                f"{_WORDS[controller]} limits are not enforced: this machine offers no "
                f"{controller} cgroup that the server may use"
            )
    if controllers and UNIFIED not in maker.boxes:
        maker.make_v1("cpuacct")
    return AttemptCgroups(maker.boxes, tuple(maker.remarks), processes_max)


class _Maker:
    """Makes boxes one by one and collects remarks on failures."""

    def __init__(self, name: str, count: int, limits: Sequence[ReplicaLimits]) -> None:
        self._name = "".join(c if c.isalnum() or c in "-_" else "-" for c in name)
        self._count = count
        self._limits = limits
        self.boxes: dict[str, cgroup.Box] = {}
        self.remarks: list[str] = []

    def make_unified(self, controllers: Sequence[str]) -> Sequence[str]:
        """Make the cgroup2 box; return the requested controllers that the box has."""
        home, offered = unified_home(controllers)
        if home is None or not self._make(UNIFIED, home):
            return ()
        box = self.boxes[UNIFIED]
        if not os.access(box.path + "/cgroup.kill", os.W_OK):  # before Linux 5.14
            self._unmake(UNIFIED)
            return ()
        covered = [name for name in offered if _enable_controller(box.path, name)]
        for name in {*_COUNTING}.difference(covered).intersection(_read_enabled(home)):
            _enable_controller(box.path, name)
        for index, limits in enumerate(self._limits):
            self._apply(UNIFIED, index, settings_v2(limits, covered))
        return covered

    def make_v1(self, controller: str) -> bool:
        """Make a box in the tree of a v1 controller; return whether that succeeded."""
        home = cgroup.own_directory(controller)
        return home is not None and writable(home) and self._make(controller, home)

    def make_limiting(self, controller: str) -> bool:
        """Make a box of a v1 controller and set its limits; return whether there is a box."""
        is_made = self.make_v1(controller)
        for index, limits in enumerate(self._limits if is_made else ()):
            self._apply(controller, index, settings_v1(limits, controller))
        return is_made

    def _make(self, tree: str, home: str) -> bool:
        cgroup.end_abandoned(home)
        box = cgroup.make_box(home, self._name)
        if box is None:
            return False
        self.boxes[tree] = box
        try:
            for index in range(self._count):
                os.mkdir(f"{box.path}/{index}")
        except OSError:
            self._unmake(tree)
            return False
        return True

    def _unmake(self, tree: str) -> None:
        box = self.boxes.pop(tree)
        box.remove()
        box.release()

    def _apply(self, tree: str, index: int, settings: Iterable[Setting]) -> None:
        for setting in settings:
            try:
                write(f"{self.boxes[tree].path}/{index}/{setting.file}", setting.text)
            except OSError as error:
                if setting.required:
                    self.remarks.append(
                        f"a limit of replica {index} is not enforced: "
                        f"{setting.file} = {setting.text}: {error.strerror}"
                    )


def homes() -> set[str]:
    """Return every directory in which attempts of this server may have boxes."""
    trees = [cgroup.own_directory(controller) for controller in (*CONTROLLERS, FREEZER, "cpuacct")]
    own_directory = cgroup.own_directory()
    parent = None if own_directory is None else os.path.dirname(own_directory)
    return {home for home in (own_directory, parent, *trees) if home is not None}


def offers(controller: str) -> bool:
    """Return whether this process may set limits by a controller, of either cgroup version."""
    _, offered = unified_home((controller,))
    home = cgroup.own_directory(controller)
    return controller in offered or (home is not None and writable(home))


def unified_home(controllers: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Return the best directory of cgroup2 for a box, and the requested controllers that it has.

    The kernel gives no controllers to the children of a directory that contains processes.  The
    directory of this process contains at least this process.  Its parent may have passed
    controllers to its children, as under systemd; then a box in the parent has them too.
    """
    own_directory = cgroup.own_directory()
    if own_directory is None or not writable(own_directory):
        return None, ()
    offered = [name for name in controllers if _enable_controller(own_directory, name)]
    parent = os.path.dirname(own_directory)
    if len(offered) < len(controllers) and writable(parent):
        offered_by_parent = [name for name in controllers if name in _read_enabled(parent)]
        if len(offered_by_parent) > len(offered):
            return parent, offered_by_parent
    return own_directory, offered


def writable(home: str) -> bool:
    """Return whether this process may move processes into a cgroup directory."""
    return os.access(home + "/cgroup.procs", os.W_OK) and os.access(home, os.W_OK)


def _enable_controller(directory: str, controller: str) -> bool:
    """Try to enable a controller for the child directories; return whether it is enabled."""
    with suppress(OSError):
        write(directory + "/cgroup.subtree_control", f"+{controller}")
    return controller in _read_enabled(directory)


def _read_enabled(directory: str) -> list[str]:
    try:
        return read(directory + "/cgroup.subtree_control").split()
    except OSError:
        return []
