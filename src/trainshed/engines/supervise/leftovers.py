"""Ends the processes that a killed supervisor has left; any process may call this module.

The module finds these processes in two ways: by the boxes (cgroup directories) whose paths the
supervisor recorded, and by the marks that every process of an attempt inherits.  A program that is
not root cannot leave a box, but not every machine supports boxes.
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

# The means by which an engine ends the processes that a killed supervisor has left, by name.
#: All processes of a replica are in a PID namespace; they end with the namespace's first process.
PID_NAMESPACE: Final = "pid namespace"
#: The parent of a supervisor adopts the processes that the supervisor leaves.  A program may kill
#: the parent too.
SUBREAPER: Final = "second subreaper"

#: The means from which a program can escape on purpose.
WEAK: Final = frozenset({SUBREAPER})

_WEAK_REASON: Final = (
    "the server cannot create cgroups; set Delegate=yes in the server's systemd unit"
)

_GONE_S_MAX: Final = 5.0
_LOCKED_S_MAX: Final = 2.0
_POLL_S: Final = 0.01


def end_leftovers(places: Mapping[str, Any], mark: str) -> list[int]:
    """SIGKILL all processes of an attempt and wait at most five seconds until they have ended.

    ``places`` is the field of the attempt's ``Began`` record; ``mark`` is UID/ATTEMPT.  Return the
    pids of processes that still live.  If the supervisor lives, its boxes are locked: then kill no
    process and return all pids.
    """
    boxes = list(places.get("boxes", ()))
    if "boxes" not in places:  # the record of the boxes is lost
        for home in cgroups.homes():
            cgroup.end_abandoned(home)
    if not all(_end_box(path) for path in boxes):
        return list_marked(mark)
    reaper = reaper_of(places)
    deadline = time.monotonic() + _GONE_S_MAX
    while True:
        tree.kill_listed(lambda: {*list_marked(mark), *list_below(reaper)})
        if reaper is not None and identity.is_suspended(reaper) and not list_below(reaper):
            # a reaper that is not suspended ends by itself
            identity.send_signal(reaper, signal.SIGKILL)
        remaining = [
            *tree.living({*list_marked(mark), *_list_in_boxes(boxes)}),
            *list_below(reaper),
        ]
        if reaper is not None and identity.is_alive(reaper):
            remaining.append(reaper.pid)
        if not remaining or time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    for path in boxes:  # a box may remain because its processes had not ended at the first try
        cgroup.end_box(path)
    return sorted(remaining)


def list_marked(mark: str) -> list[int]:
    """List the processes with the mark, except this process and its ancestors."""
    limit = marks.limit_of(mark)
    own = _list_ancestors()
    with suppress(OSError):
        pids = {int(name) for name in os.listdir("/proc") if name.isdecimal()}
        return [pid for pid in pids - own if marks.has_mark(pid, mark, limit)]
    return []


def _end_box(path: str) -> bool:
    """Kill the processes in a box and remove it; False: its owner lives.

    Retry for two seconds, because another process in ``end_abandoned`` may hold the lock briefly.
    """
    deadline = time.monotonic() + _LOCKED_S_MAX
    while not cgroup.end_box(path):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def reaper_of(places: Mapping[str, Any]) -> Identity | None:
    """Return the second subreaper of an attempt (``kernel.reaper``); None: it had none."""
    return Identity(*places["reaper"]) if places.get("reaper") else None


def list_below(reaper: Identity | None) -> set[int]:
    """List the living descendants of an attempt's second subreaper; empty if it has ended."""
    if reaper is None or not identity.is_alive(reaper):
        return set()
    pids = {child for _, child in tree.descendants(reaper.pid)}
    return {*tree.living(pids - _list_ancestors())}


def _list_in_boxes(boxes: list[str]) -> set[int]:
    return {pid for path in boxes if cgroup.is_box(path) for pid in cgroup.processes(path)}


def _list_ancestors() -> set[int]:
    """Return the pids of this process, its parent, and so on."""
    pids = set()
    pid = os.getpid()
    with suppress(OSError, ValueError):
        while pid > 0:
            pids.add(pid)
            pid = tree.parent_of(pid)
    return pids


def describe_means(means: str) -> str:
    """Describe how leftovers are ended; if a process can escape, add how to improve that."""
    return f"{means} (weak: {_WEAK_REASON})" if means in WEAK else means
