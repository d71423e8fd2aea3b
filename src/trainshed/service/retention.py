"""How long logs are kept: by size while a job runs, by age after its end."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from trainshed.storage.log_files import JobLog
from trainshed.store.base import Jobs

_DAY_S: Final = 86_400.0
_NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Removes what is older or more than an administrator wants to keep."""

    store: Jobs
    job_log: JobLog
    bytes_max: int
    """Per job (settings ``log_bytes_max``)."""
    days_max: float
    """After the job's end (settings ``log_days_max``)."""
    clock: Callable[[], float]
    """Seconds since 1970, of the store, in which the ends of jobs are told."""
    _settled: dict[int, float] = field(default_factory=dict, init=False)
    """When the log of a job that is over has to be looked at again, by uid."""

    def tidy(self) -> None:
        """Look at every job's log once, but at one that is over only when its time has come.

        The newest segment of an attempt is never removed for its size; a job that has not ended
        keeps what it wrote, however long ago.
        """
        uids = set(self.job_log.uids())
        for uid in self._settled.keys() - uids:
            del self._settled[uid]
        now = self.clock()
        for uid in sorted(uids):
            if self._settled.get(uid, now) <= now:
                self._tidy(uid, now)

    def _tidy(self, uid: int, now: float) -> None:
        record = self.store.job_by_uid(uid)
        end_time = None if record is None else record.job.status.end_time
        if end_time is None:
            self.job_log.prune(uid, self.bytes_max)
            return
        expires = end_time.timestamp() + self.days_max * _DAY_S
        if expires < now:
            self.job_log.remove(uid)
            self._settled[uid] = _NEVER
        else:
            self.job_log.prune(uid, self.bytes_max)
            self._settled[uid] = expires
