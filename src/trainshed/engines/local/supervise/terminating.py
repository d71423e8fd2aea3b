"""Asks the processes of an attempt to end, each of them once.

Many programs take a second SIGTERM for an order to drop everything, also while they still save what
the first had told them to: launchers of several processes, handlers that raise an exception.
"""

import os
import signal
from collections.abc import Collection, Iterable
from contextlib import suppress

from trainshed.engines.local.processes import tree

#: A suspended one hears it too.
_SIGNALS = (signal.SIGTERM, signal.SIGCONT)


class Terminator:
    """Remembers who has been asked."""

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        """Nobody yet."""
        self._asked: set[int] = set()

    def leaders(self, pids: Collection[int]) -> None:
        """Ask children of this process that have not been reaped; nobody below them."""
        self._asked.update(pids)
        for pid in pids:
            for signum in _SIGNALS:
                with suppress(OSError):
                    os.kill(pid, signum)

    def orphans(self, leaders: Iterable[int]) -> None:
        """Ask those that none of these has below it."""
        listed = list(tree.descendants(os.getpid()))
        kept = set(leaders)
        for parent, child in listed:  # parents come first
            if parent in kept:
                kept.add(child)
        self._ask(listed, but=kept)

    def everybody(self) -> None:
        """Ask every process, wherever it stands."""
        self._ask(list(tree.descendants(os.getpid())), but=())

    def _ask(self, listed: list[tuple[int, int]], *, but: Collection[int]) -> None:
        self._asked &= {child for _, child in listed}  # the numbers of others may be given away
        spared = self._asked.union(but)
        new = [(parent, child) for parent, child in listed if child not in spared]
        self._asked.update(child for _, child in new)
        for signum in _SIGNALS:
            tree.send_to_all(new, os.getpid(), signum)
