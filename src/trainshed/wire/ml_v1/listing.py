"""The states of ``ml/v1``, and the filters of ``jobs.list``: ``jobId:census* AND state:FAILED``.

Sources: contracts/gcloud.md 10.3, contracts/vertex-sdk.md 7.1.
"""

from collections.abc import Mapping
from typing import Final

from trainshed.model.filters import Filter
from trainshed.model.status import JobState
from trainshed.wire.list_filter import MATCHING, ORDERED, FilterWords, read_filter
from trainshed.wire.status import states_of

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


WORDS: Final = FilterWords(
    operators={
        "job_id": MATCHING,
        "state": MATCHING,
        "create_time": ORDERED,
        "labels": MATCHING,
    },
    states={**states_of(STATE), "STATE_UNSPECIFIED": None},
)


def jobs_filter(text: str) -> Filter:
    """The meaning of a filter.  Raises Refusal (INVALID_ARGUMENT)."""
    return read_filter(text, WORDS)
