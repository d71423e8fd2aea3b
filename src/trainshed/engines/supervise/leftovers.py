"""Ends the processes that a killed supervisor has left; any process may call this.

Two things lead to it: the boxes whose places the supervisor wrote down, and the marks that every
process of an attempt inherits, whatever forked it.  The first cannot be left by a program that is
not root, and is not to be had everywhere: both are used.
"""

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from trainshed.engines.processes import cgroup, identity, tree
from trainshed.engines.processes import mark as marks
from trainshed.engines.processes.identity import Identity
from trainshed.engines.supervise.kernel import cgroups

_GONE_S_MAX: Final = 5.0
_LOCKED_S_MAX: Final = 2.0
_POLL_S: Final = 0.01


def end_leftovers(places: Mapping[str, Any], mark: str) -> list[int]:
    """SIGKILL whatever is left of an attempt and wait until it is gone, five seconds at most.

    ``places`` are those of its record, ``mark`` is UID/ATTEMPT.  Gives the processes that still
    live.  Nothing is touched, and all are given, while the supervisor lives: its boxes are locked.
    """
    boxes = list(places.get("boxes", ()))
    if "boxes" not in places:  # its record of them is lost
        for home in cgroups.homes():
            cgroup.end_abandoned(home)
    if not all(_ended(path) for path in boxes):
        return marked(mark)
    reaper = reaper_of(places)
    deadline = time.monotonic() + _GONE_S_MAX
    while True:
        tree.kill_listed(lambda: {*marked(mark), *below(reaper)})
        if reaper is not None and identity.is_suspended(reaper) and not below(reaper):
            identity.send(reaper, signal.SIGKILL)  # else it ends by itself, last of all
        remaining = [*tree.living({*marked(mark), *_inside(boxes)}), *below(reaper)]
        if reaper is not None and identity.lives(reaper):
            remaining.append(reaper.pid)
        if not remaining or time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    for path in boxes:  # one whose processes took their time to leave is still there
        cgroup.end_box(path)
    return sorted(remaining)


def marked(mark: str) -> list[int]:
    """The processes that bear the mark, but this one and those it descends from."""
    limit = marks.limit_of(mark)
    own = _ancestry()
    with suppress(OSError):
        pids = {int(name) for name in os.listdir("/proc") if name.isdecimal()}
        return [pid for pid in pids - own if marks.bears(pid, mark, limit)]
    return []


def _ended(path: str) -> bool:
    """False: the owner lives.  Waits for a process that only looks, as ``end_abandoned`` does."""
    deadline = time.monotonic() + _LOCKED_S_MAX
    while not cgroup.end_box(path):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def reaper_of(places: Mapping[str, Any]) -> Identity | None:
    """The second subreaper of an attempt, if it had one."""
    return Identity(*places["reaper"]) if places.get("reaper") else None


def below(reaper: Identity | None) -> set[int]:
    """The living that the second subreaper of an attempt has inherited, while it lives itself."""
    if reaper is None or not identity.lives(reaper):
        return set()
    pids = {child for _, child in tree.descendants(reaper.pid)}
    return {*tree.living(pids - _ancestry())}


def _inside(boxes: list[str]) -> set[int]:
    return {pid for path in boxes if cgroup.is_box(path) for pid in cgroup.processes(path)}


def _ancestry() -> set[int]:
    """The pids of this process, its parent, and so on."""
    pids = set()
    pid = os.getpid()
    with suppress(OSError, ValueError):
        while pid > 0:
            pids.add(pid)
            pid = tree.parent_of(pid)
    return pids
