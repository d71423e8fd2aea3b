"""What a server does now and then: old logs and old jobs go, and the clock is looked at."""

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

#: How often every chore is done.
EVERY_S: Final = 60.0
#: How long a server that ends waits for a chore under way; the next one begins it anew.
END_S: Final = 1.0
#: A clock that was set by less is not worth a word.
SKEW_S_MAX: Final = 5.0

_LOG = logging.getLogger(__name__)


class Housekeeping:
    """Does chores on a thread of its own; their failures are only logged."""

    def __init__(
        self, chores: Mapping[str, Callable[[], object]], every_s: float = EVERY_S
    ) -> None:
        """Chores by what they are for (``old logs``); first done after ``every_s`` seconds."""
        self._chores = dict(chores)
        self._every_s = every_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def add(self, what: str, perform: Callable[[], object]) -> None:
        """One more chore, before the start."""
        self._chores[what] = perform

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End, also where it was never begun; what takes long is left in its midst."""
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
        except (StoreFault, OSError) as fault:  # it comes and goes: no story to tell
            _LOG.warning("the housekeeping of %s failed and will be repeated: %s", name, fault)
        except Exception:  # noqa: BLE001  # it must not end the thread, nor the other chores
            _LOG.exception("the housekeeping of %s failed", name)


class ClockWatch:
    """Says when the machine's clock was set; the server's own goes on steadily.

    It draws near to the machine's all the time: only what leads away from it is a change.
    """

    def __init__(self, skew_s: Callable[[], float]) -> None:
        """``skew_s``: by how much the machine's clock is ahead of the server's own."""
        self._skew_s = skew_s
        self._seen_s = 0.0
        self._is_reported = False

    def look(self) -> None:
        """Warn once for each change of more than ``SKEW_S_MAX``, and tell its end."""
        before_s, self._seen_s = self._seen_s, self._skew_s()
        if abs(self._seen_s) <= SKEW_S_MAX:
            if self._is_reported:
                _LOG.info("the machine's clock agrees with the server's again")
            self._is_reported = False
        elif not self._is_reported or _leads_away(before_s, self._seen_s):
            self._is_reported = True
            _LOG.warning(
                "the machine's clock was set: it is %.0f s %s the server's, which goes on steadily",
                abs(self._seen_s),
                "ahead of" if self._seen_s > 0 else "behind",
            )


def _leads_away(before_s: float, now_s: float) -> bool:
    return before_s * now_s < 0 or abs(now_s) > abs(before_s) + SKEW_S_MAX


class DiskWatch:
    """Says when a disk is nearly full: logs of jobs are held back then, and programs wait."""

    def __init__(self, place: Path, missing: Callable[[Path], int] = room.missing_bytes) -> None:
        """``missing``: how much less is free there than must be (``files.room``)."""
        self._place = place
        self._missing = missing
        self._is_reported = False

    def look(self) -> None:
        """Warn once, and tell the end.  Raises OSError."""
        missing = self._missing(self._place)
        if missing and not self._is_reported:
            _LOG.warning(
                "the disk of %s is nearly full: make room for %d MiB at least; programs of jobs "
                "that print wait until then",
                self._place,
                -(-missing >> 20),
            )
        elif self._is_reported and not missing:
            _LOG.info("the disk of %s has room again", self._place)
        self._is_reported = bool(missing)


#: A write of more would keep others waiting.
_AT_ONCE: Final = 25
#: A thread that never rests takes the interpreter from those who answer calls.
_REST: Final = 1.0
#: So many folders that cannot be removed tell that none can.
_KEPT_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """Forgets jobs some days after their end: their rows, their story, their logs and folders.

    What a job wrote to its own output directory is the user's, and stays.
    """

    store: Store
    remove: Callable[[JobUid], bool]
    """Removes what an engine has of a uid (``Engine.forget``); False while anything lives."""
    days_max: float | None
    """After the job's end (settings ``finished_days_max``); None keeps all for ever."""
    rest: Callable[[float], object] = time.sleep
    monotonic: Callable[[], float] = time.monotonic

    def tidy(self) -> int:
        """Forget all whose time has come; how many.

        Folders go before rows: a server that is killed in between finds the rows again.  A folder
        that cannot be removed, or of which something lives, keeps its job for the next time, and
        none of the others.  After some jobs it rests as long as they took: calls are answered
        meanwhile, however many jobs there are.  Raises its OSError in the end.
        """
        if self.days_max is None:
            return 0
        # by the store's time, in which ends are written: a clock that was set makes no job old
        ended_before = self.store.moment_before(timedelta(days=self.days_max))
        forgotten: set[JobUid] = set()
        remaining: dict[JobUid, OSError | None] = {}
        while len(remaining) < _KEPT_MAX:
            began_s = self.monotonic()
            oldest = self.store.expired(ended_before=ended_before, limit=_AT_ONCE + len(remaining))
            uids = [uid for uid in oldest if uid not in remaining]
            if forgotten.issuperset(uids):
                break  # there are none, or the store keeps them, for a reason of its own
            gone = [uid for uid in uids if self._is_removed(uid, remaining)]
            self.store.forget(gone)
            forgotten.update(gone)
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
    """Removes what is older or more than an administrator wants to keep."""

    store: Store
    job_log: JobLog
    bytes_max: int
    """Per job (settings ``log_bytes_max``)."""
    days_max: float
    """After the job's end (settings ``log_days_max``)."""
    moment_before: Callable[[timedelta], datetime]
    """``Store.moment_before``: by the store's time, in which the ends of jobs are written, a clock
    that was set makes no log old."""
    _settled: dict[JobUid, datetime | None] = field(default_factory=dict, init=False)
    """When the jobs ended whose logs have been looked at after it, by uid; None: it is removed."""

    def tidy(self) -> None:
        """Look at every job's log once, but at one that is over only when its time has come.

        The newest segment of an attempt is never removed for its size; a job that has not ended
        keeps what it wrote, however long ago.
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
        if end_time is None:
            self.job_log.prune(uid, self.bytes_max)
            return
        if end_time < ended_before:
            self.job_log.remove(uid)
            self._settled[uid] = None
        else:
            self.job_log.prune(uid, self.bytes_max)
            self._settled[uid] = end_time
