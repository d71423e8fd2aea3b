"""The words of ``ml/v1`` for the states of a job (contracts/gcloud.md 10.3)."""

from collections.abc import Mapping
from typing import Final

from trainshed.model.status import JobState

STATE: Final[Mapping[JobState, str]] = {
    JobState.QUEUED: "QUEUED",
    JobState.PREPARING: "PREPARING",
    JobState.RUNNING: "RUNNING",
    JobState.RESTARTING: "RUNNING",  # neither dialect has a word for it
    JobState.CANCELLING: "CANCELLING",
    JobState.SUCCEEDED: "SUCCEEDED",
    JobState.FAILED: "FAILED",
    JobState.CANCELLED: "CANCELLED",
}
