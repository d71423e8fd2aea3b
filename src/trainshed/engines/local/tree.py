"""Descendants of a process: found through /proc, signalled without hitting a reused pid.

Process groups alone are not enough: a trainer that calls ``setsid`` leaves its group
(contracts/engines.md section 6), but it cannot leave the descendants of a subreaper.
"""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path


def children(pid: int) -> list[int]:
    """The living and unreaped children of all threads of a process; empty if it is gone."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def descendants(pid: int) -> Iterator[tuple[int, int]]:
    """Every (parent, child) below a process, parents first."""
    for child in children(pid):
        yield pid, child
        yield from descendants(child)


def send(pid: int, parents: Iterable[int], sig: signal.Signals) -> None:
    """Send a signal to ``pid`` if it still is a child of one of ``parents``.

    The pid may have been given to a stranger since it was listed.  A pidfd pins the process; the
    look at its parent after that makes sure that it is the one that was meant.
    """
    with suppress(OSError):
        pinned = os.pidfd_open(pid)
        try:
            if _parent(pid) in parents:
                signal.pidfd_send_signal(pinned, sig)
        finally:
            os.close(pinned)


def send_to_all(
    listed: Iterable[tuple[int, int]],
    adopter: int,
    sig: signal.Signals,
    *,
    except_groups: Iterable[int] = (),
) -> None:
    """Send a signal to descendants listed before, but the members of some process groups.

    A parent that has ended since has left its children to ``adopter``.  Listing comes before the
    first signal: while a parent ends, a walk down the tree misses the children that change hands.
    """
    spared = frozenset(except_groups)
    for parent, child in listed:
        with suppress(OSError):
            if os.getpgid(child) not in spared:
                send(child, (parent, adopter), sig)


def kill_child(pid: int) -> None:
    """SIGKILL a child of this process and everything below it."""
    listed = [(os.getpid(), pid), *descendants(pid)]
    send_to_all(listed, os.getpid(), signal.SIGKILL)


def _parent(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return int(stat.rpartition(")")[2].split()[1])
