"""Orders to stop an attempt: the reason, and the grace period."""

import enum
from dataclasses import dataclass


class StopReason(enum.Enum):
    """Why an attempt is stopped; the value is what its replicas read in their notice."""

    CANCEL = "cancel"
    TIMEOUT = "timeout"
    MAINTENANCE = "maintenance"
    HANG = "hang"
    AGAIN = "again"
    """The attempt has ended and the job has another: what that needs may be kept for it."""
    END = "end"
    """The job is over, or the attempt was given up: whatever may be left of it must go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrder:
    """The order to end an attempt.

    Replicas get a notice and SIGTERM at once, and are killed after ``grace_s`` seconds.
    ``message`` is a sentence for users.
    """

    grace_s: float
    reason: StopReason = StopReason.CANCEL
    message: str = ""
