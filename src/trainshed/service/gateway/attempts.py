"""What the gateway has to know of an attempt: whose it is, and whether it lives."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from trainshed.model.access import AccessRole, Caller
from trainshed.model.attempt import AttemptKey
from trainshed.model.status import JobState

if TYPE_CHECKING:  # local runs have no store, and do without its packages
    from trainshed.store.records import JobRecord

#: How long an attempt that has ended may still be taken for a living one.
REMEMBERED_S: Final = 1.0
#: Attempts that are remembered at once.
_REMEMBERED_MAX: Final = 4096
_CREDENTIAL: Final = "attempt "


@dataclass(frozen=True, slots=True, kw_only=True)
class LivingAttempt:
    """An attempt that may use the gateway."""

    key: AttemptKey
    job_id: str
    project: str
    project_number: str
    location: str = ""
    """The region; empty where the job names none."""

    def caller(self, ends_at_s: float | None = None) -> Caller:
        """The attempt as a caller of storage: it reads and writes the buckets of its project."""
        return Caller(
            name=f"job {self.job_id}",
            project=self.project,
            role=AccessRole.SUBMITTER,
            credential=f"{_CREDENTIAL}{self.key}",
            ends_at_s=ends_at_s,
        )


def is_attempt(caller: Caller) -> bool:
    """Whether a caller is an attempt, and not somebody whose own token it was given."""
    return caller.credential.startswith(_CREDENTIAL)


#: Finds an attempt that lives; None for one that is over, or never was.  Thread-safe.
FindAttempt = Callable[[AttemptKey], LivingAttempt | None]


class Jobs(Protocol):
    """The store, as far as it is asked here."""

    def job_by_uid(self, uid: int) -> "JobRecord | None":
        """The job of a uid."""

    def project(self, id_or_number: str) -> tuple[str, str]:
        """The (id, number) of a project."""


class AttemptsOfStore:
    """Looks attempts up and remembers the answers for a moment."""

    def __init__(self, store: Jobs, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is remembered."""
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[AttemptKey, tuple[float, LivingAttempt | None]] = {}

    def __call__(self, key: AttemptKey) -> LivingAttempt | None:
        """The attempt, if it lives."""
        now = self._clock()
        until, found = self._known.get(key, (0.0, None))
        if now < until:
            return found
        found = self._looked_up(key)
        with self._lock:
            if len(self._known) >= _REMEMBERED_MAX:
                self._known.clear()
            self._known[key] = (now + REMEMBERED_S, found)
        return found

    def _looked_up(self, key: AttemptKey) -> LivingAttempt | None:
        record = self._store.job_by_uid(key.uid)
        if record is None or record.attempt != key.attempt:
            return None
        job = record.job
        if job.status.state is JobState.QUEUED or job.status.state.is_final:
            return None
        project, number = self._store.project(job.project)
        return LivingAttempt(
            key=key,
            job_id=job.job_id,
            project=project,
            project_number=number,
            location=job.location,
        )
