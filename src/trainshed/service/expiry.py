"""How long jobs that are over are remembered at all."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trainshed.store.base import Work

_AT_ONCE: Final = 100
#: So many folders that cannot be removed tell that none can.
_KEPT_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """Forgets jobs some days after their end: their rows, their story, their logs and folders.

    What a job wrote to its own output directory is the user's, and stays.
    """

    store: Work
    remove: Callable[[int], bool]
    """Removes what an engine has of a uid (``Engine.forget``); False while anything lives."""
    days_max: float | None
    """After the job's end (settings ``finished_days_max``); None keeps all for ever."""
    clock: Callable[[], datetime]
    """The time of the store, in which the ends of jobs are told: a wall clock that was set wrong
    would make all jobs old at once."""

    def tidy(self) -> int:
        """Forget all whose time has come; how many.

        Folders go before rows: a server that is killed in between finds the rows again.  A folder
        that cannot be removed, or of which something lives, keeps its job for the next time, and
        none of the others.  Raises its OSError in the end.
        """
        if self.days_max is None:
            return 0
        ended_before = self.clock() - timedelta(days=self.days_max)
        forgotten: set[int] = set()
        kept: dict[int, OSError | None] = {}
        while len(kept) < _KEPT_MAX:
            oldest = self.store.expired(ended_before=ended_before, limit=_AT_ONCE + len(kept))
            uids = [uid for uid in oldest if uid not in kept]
            if forgotten.issuperset(uids):
                break  # there are none, or the store keeps them, for a reason of its own
            gone = [uid for uid in uids if self._is_removed(uid, kept)]
            self.store.forget(gone)
            forgotten.update(gone)
        for error in filter(None, kept.values()):
            raise error
        return len(forgotten)

    def _is_removed(self, uid: int, kept: dict[int, OSError | None]) -> bool:
        try:
            if self.remove(uid):
                return True
            kept[uid] = None
        except OSError as error:
            kept[uid] = error
        return False
