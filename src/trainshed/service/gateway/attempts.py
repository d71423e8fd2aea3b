"""An attempt as the gateway sees it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from trainshed.model.access import AccessRole, Caller
from trainshed.model.attempt import AttemptKey

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
    """Whether a caller is an attempt, rather than a user whose token a program has."""
    return caller.credential.startswith(_CREDENTIAL)


#: Finds an attempt that lives; None for one that is over, or never was.  Thread-safe.
FindAttempt = Callable[[AttemptKey], LivingAttempt | None]
