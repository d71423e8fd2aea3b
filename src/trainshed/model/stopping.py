"""Orders to stop an attempt: the reason, and the grace period."""

import enum
from dataclasses import dataclass


class StopReason(enum.Enum):
    """Why an attempt is stopped; replicas read the value in their notice."""

    CANCEL = "cancel"
    TIMEOUT = "timeout"
    MAINTENANCE = "maintenance"
    HANG = "hang"
    PAUSE = "pause"
    """The study of the trial pauses it: the job waits until the study resumes the trial."""
    AGAIN = "again"
    """The attempt has ended and the job restarts: the engine may keep resources for the next
    attempt."""
    END = "end"
    """The job has ended, or the attempt was given up: the engine must remove all its resources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrder:
    """The order to end an attempt.

    Replicas get a notice and SIGTERM at once, and are killed after ``grace_s`` seconds.
    ``message`` is a sentence for users.
    """

    grace_s: float
    reason: StopReason = StopReason.CANCEL
    message: str = ""
