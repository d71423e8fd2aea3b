"""The attempt that uses the gateway, as a value and as a caller of storage."""

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
    """The region; empty if the job names none."""

    def caller(self, ends_at_s: float | None = None) -> Caller:
        """Return the attempt as a caller that may read and write its project's buckets."""
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


#: Returns a living attempt; None if the attempt has ended or never existed.  Thread-safe.
FindAttempt = Callable[[AttemptKey], LivingAttempt | None]
