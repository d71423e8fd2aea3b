"""Periodic chores of a server: delete old logs and jobs, watch the clock and the disk."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from trainshed.files import room
from trainshed.model.resource_names import JobUid
from trainshed.storage.log_files import JobLog
from trainshed.store.base import StoreFault
from trainshed.store.opening import Store

#: Seconds between two runs of every chore.
EVERY_S: Final = 60.0
#: Seconds that a server waits at its end for a running chore; the next server runs it again.
END_S: Final = 1.0
#: Smaller changes of the clock are not logged.
SKEW_S_MAX: Final = 5.0

_LOG = logging.getLogger(__name__)


class Housekeeping:
    """Runs chores on a thread of its own and logs their failures."""

    def __init__(
        self, chores: Mapping[str, Callable[[], object]], every_s: float = EVERY_S
    ) -> None:
        """``chores`` by name (``old logs``); the first run is after ``every_s`` seconds."""
        self._chores = dict(chores)
        self._every_s = every_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def add(self, name: str, perform: Callable[[], object]) -> None:
        """Add a chore, before the start."""
        self._chores[name] = perform

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End, also if never started; a long chore is abandoned."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join(END_S)

    def _run(self) -> None:
        while not self._end.wait(self._every_s):
            for name, perform in self._chores.items():
                if self._end.is_set():
                    return
                self._do(name, perform)

    def _do(self, name: str, perform: Callable[[], object]) -> None:
        try:
            perform()
        except (StoreFault, OSError) as fault:  # transient: no traceback
            _LOG.warning("chore %s failed: %s; it runs again at its next turn", name, fault)
        except Exception:  # noqa: BLE001  # it must not end the thread, nor the other chores
            _LOG.exception("chore %s failed; it runs again at its next turn", name)


class ClockWatch:
    """Logs when the machine's clock was set; the server's own clock runs steadily.

    The server's clock approaches the machine's all the time: only a growing difference is a change.
    """

    def __init__(self, skew_s: Callable[[], float]) -> None:
        """``skew_s``: by how much the machine's clock is ahead of the server's own."""
        self._skew_s = skew_s
        self._seen_s = 0.0
        self._is_reported = False

    def look(self) -> None:
        """Warn once of each change above ``SKEW_S_MAX``, and log its end."""
        before_s, self._seen_s = self._seen_s, self._skew_s()
        if abs(self._seen_s) <= SKEW_S_MAX:
            if self._is_reported:
                _LOG.info("the machine's clock agrees with the server's again")
            self._is_reported = False
        elif not self._is_reported or _leads_away(before_s, self._seen_s):
            self._is_reported = True
            _LOG.warning(
                "the machine's clock was set: it is %.0f s %s the server's, which was not set",
                abs(self._seen_s),
                "ahead of" if self._seen_s > 0 else "behind",
            )


def _leads_away(before_s: float, now_s: float) -> bool:
    return before_s * now_s < 0 or abs(now_s) > abs(before_s) + SKEW_S_MAX


class DiskWatch:
    """Logs when a disk is nearly full: jobs then block on output."""

    def __init__(self, folder: Path, missing: Callable[[Path], int] = room.missing_bytes) -> None:
        """``missing``: how many bytes of free space a folder lacks (``files.room``)."""
        self._folder = folder
        self._missing = missing
        self._is_reported = False

    def look(self) -> None:
        """Warn once, and log the end.  Raises OSError."""
        missing = self._missing(self._folder)
        if missing and not self._is_reported:
            _LOG.warning(
                "the disk of %s is nearly full: free at least %d MiB; jobs block on output until "
                "there is disk space",
                self._folder,
                -(-missing >> 20),
            )
        elif self._is_reported and not missing:
            _LOG.info("the disk of %s has enough space again", self._folder)
        self._is_reported = bool(missing)


#: A larger write would delay other writers.
_AT_ONCE: Final = 25
#: Rests let the threads that answer requests run.
_REST: Final = 1.0
#: After so many folders that cannot be removed, the chore stops.
_KEPT_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """Deletes jobs some days after their end: their rows, events, logs and folders.

    Files in a job's output directory belong to the user and stay.
    """

    store: Store
    remove: Callable[[JobUid], bool]
    """Removes an engine's data of a uid (``Engine.forget``); False while a process lives."""
    days_max: float | None
    """Days after the job's end (settings ``finished_days_max``); None keeps all jobs."""
    rest: Callable[[float], object] = time.sleep
    monotonic: Callable[[], float] = time.monotonic

    def tidy(self) -> int:
        """Delete expired jobs; return how many.

        Folders are removed before rows: a server killed in between finds the rows again.  A job
        whose folder cannot be removed, or has a living process, waits for the next run; the others
        do not.  After some jobs it rests as long as they took, so that requests are answered.
        Raises OSError at the end if a folder could not be removed.
        """
        if self.days_max is None:
            return 0
        # by the store's time, in which ends are written: setting the clock expires no job
        ended_before = self.store.moment_before(timedelta(days=self.days_max))
        forgotten: set[JobUid] = set()
        remaining: dict[JobUid, OSError | None] = {}
        while len(remaining) < _KEPT_MAX:
            began_s = self.monotonic()
            oldest = self.store.expired(ended_before=ended_before, limit=_AT_ONCE + len(remaining))
            uids = [uid for uid in oldest if uid not in remaining]
            if forgotten.issuperset(uids):
                break  # no jobs are left, or the store does not delete them
            removed = [uid for uid in uids if self._is_removed(uid, remaining)]
            self.store.forget(removed)
            forgotten.update(removed)
            self.rest(_REST * (self.monotonic() - began_s))
        for error in filter(None, remaining.values()):
            raise error
        return len(forgotten)

    def _is_removed(self, uid: JobUid, remaining: dict[JobUid, OSError | None]) -> bool:
        try:
            if self.remove(uid):
                return True
            remaining[uid] = None
        except OSError as error:
            remaining[uid] = error
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Removes logs beyond the age and size that an administrator keeps."""

    store: Store
    job_log: JobLog
    bytes_max: int
    """The most bytes of one job's log (settings ``log_bytes_max``)."""
    days_max: float
    """Days after the job's end (settings ``log_days_max``)."""
    moment_before: Callable[[timedelta], datetime]
    """``Store.moment_before``: by the store's time, in which ends are written, so that setting the
    clock expires no log."""
    count_pruned: Callable[[int], object] = int
    """Called with the bytes that were removed."""
    _settled: dict[JobUid, datetime | None] = field(default_factory=dict, init=False)
    """End times, by uid, of jobs whose logs were checked after their end; None: removed."""

    def tidy(self) -> None:
        """Check every active job's log, and an ended job's log once it may have expired.

        The newest segment of an attempt is never removed for its size; an active job keeps lines of
        any age.
        """
        uids = set(self.job_log.uids())
        for uid in self._settled.keys() - uids:
            del self._settled[uid]
        ended_before = self.moment_before(timedelta(days=self.days_max))
        for uid in sorted(uids):
            if self._is_to_be_tidied(uid, ended_before):
                self._tidy(uid, ended_before)

    def _is_to_be_tidied(self, uid: JobUid, ended_before: datetime) -> bool:
        if uid not in self._settled:
            return True
        end_time = self._settled[uid]
        return end_time is not None and end_time < ended_before

    def _tidy(self, uid: JobUid, ended_before: datetime) -> None:
        record = self.store.job_by_uid(uid)
        end_time = None if record is None else record.job.status.end_time
        if end_time is not None and end_time < ended_before:
            self.count_pruned(self.job_log.remove(uid))
            self._settled[uid] = None
            return
        self.count_pruned(self.job_log.prune(uid, self.bytes_max))
        if end_time is not None:
            self._settled[uid] = end_time
