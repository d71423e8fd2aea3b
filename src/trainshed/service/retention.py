"""How long logs are kept: by size while a job runs, by age after its end."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from trainshed.storage.log_files import JobLog
from trainshed.store.base import Jobs

_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Removes what is older or more than an administrator wants to keep."""

    store: Jobs
    job_log: JobLog
    bytes_max: int
    """Per job (settings ``log_bytes_max``)."""
    days_max: float
    """After the job's end (settings ``log_days_max``)."""
    clock: Callable[[], float] = time.time

    def tidy(self) -> None:
        """Look at every job's log once.

        The newest segment of an attempt is never removed for its size; a job that has not ended
        keeps what it wrote, however long ago.
        """
        for uid in self.job_log.uids():
            if self._has_expired(uid):
                self.job_log.remove(uid)
            else:
                self.job_log.prune(uid, self.bytes_max)

    def _has_expired(self, uid: int) -> bool:
        oldest = self.clock() - self.days_max * _DAY_S
        changed = self.job_log.newest_change(uid)
        if changed is None or changed > oldest:  # spares the store most questions
            return False
        record = self.store.job_by_uid(uid)
        end_time = None if record is None else record.job.status.end_time
        return end_time is not None and end_time.timestamp() < oldest
