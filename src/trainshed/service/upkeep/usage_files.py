"""Merges the samples of attempts that ended long ago: their supervisors cannot do it any more."""

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.usage_file import thin
from trainshed.model.attempt import AttemptKey
from trainshed.model.usage import FULL_S
from trainshed.store.opening import Store

#: Seconds between the begins of two searches for old files.
_EVERY_S: Final = 86_400.0
#: The most attempts whose files one turn looks at, and the most files that it rewrites.
_LOOKED_AT_MAX: Final = 2_000
_AT_ONCE: Final = 20


@dataclass(slots=True, kw_only=True)
class UsageThinning:
    """Rewrites files of samples a week after their last change: one line for ten minutes is left.

    A file is rewritten again a week later, which changes nothing and takes some milliseconds.
    """

    store: Store
    jobs_dirs: Sequence[Path]
    """The folders that have ``UID/ATTEMPT``."""
    clock: Callable[[], float] = time.time
    """The time of the lines, in seconds since 1970."""
    monotonic: Callable[[], float] = time.monotonic
    _attempts: Iterator[tuple[AttemptKey, AttemptFolder]] = field(
        default_factory=lambda: iter(()), init=False
    )
    """The attempts that the search has not looked at so far."""
    _due_s: float = field(default=float("-inf"), init=False)

    def tidy(self) -> None:
        """Rewrite some files, and continue with the others at the next call.

        Raises StoreFault and OSError; the next call continues after the file that failed.
        """
        if self.monotonic() >= self._due_s:
            self._due_s = self.monotonic() + _EVERY_S
            self._attempts = _list_attempts(self.jobs_dirs)
        due = self._list_due(islice(self._attempts, _LOOKED_AT_MAX))
        for folder in islice(due, _AT_ONCE):
            thin(folder, self.clock())

    def _list_due(
        self, attempts: Iterable[tuple[AttemptKey, AttemptFolder]]
    ) -> Iterator[AttemptFolder]:
        for key, folder in attempts:
            if _is_old(folder, self.clock()) and self._is_over(key):
                yield folder

    def _is_over(self, key: AttemptKey) -> bool:
        record = self.store.job_by_uid(key.uid)
        if record is None:  # it is being deleted
            return False
        return record.job.status.state.is_final or key.attempt < record.attempt


def _list_attempts(jobs_dirs: Iterable[Path]) -> Iterator[tuple[AttemptKey, AttemptFolder]]:
    for root in jobs_dirs:
        for uid in _list_numbers(root):
            for attempt in _list_numbers(root / str(uid)):
                path = root / str(uid) / str(attempt)
                yield AttemptKey(uid, attempt), AttemptFolder(path)


def _list_numbers(folder: Path) -> Sequence[int]:
    """Return the names that are numbers; empty for what cannot be read, or is no folder."""
    try:
        return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal())
    except OSError:
        return ()


def _is_old(folder: AttemptFolder, now_s: float) -> bool:
    try:
        status = os.lstat(folder.packed_usage)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_mtime < now_s - FULL_S
