"""How long jobs that are over are remembered at all."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from trainshed.store.base import Work

_AT_ONCE: Final = 100


def _utc_now() -> datetime:
    return datetime.now(tz=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """Forgets jobs some days after their end: their rows, their story, their logs and folders.

    What a job wrote to its own output directory is the user's, and stays.
    """

    store: Work
    remove: Callable[[int], None]
    """Removes the folder of a uid, or finds it gone; see ``remove_folder``."""
    days_max: float | None
    """After the job's end (settings ``finished_days_max``); None keeps all for ever."""
    clock: Callable[[], datetime] = _utc_now

    def tidy(self) -> int:
        """Forget all whose time has come; how many.

        Folders go before rows: a server that is killed in between finds the rows again.  A folder
        that cannot be removed keeps its job, and those that ended after it, for the next time.
        """
        if self.days_max is None:
            return 0
        ended_before = self.clock() - timedelta(days=self.days_max)
        forgotten: set[int] = set()
        while uids := self.store.expired(ended_before=ended_before, limit=_AT_ONCE):
            if forgotten.issuperset(uids):
                break  # the store keeps them, for a reason of its own
            for uid in uids:
                self.remove(uid)
            self.store.forget(uids)
            forgotten.update(uids)
        return len(forgotten)


def remove_folder(jobs_dir: Path, uid: int) -> None:
    """Remove all that lies in a job's folder; it may be gone already.  Raises OSError."""
    with suppress(FileNotFoundError):
        shutil.rmtree(jobs_dir / str(uid))
