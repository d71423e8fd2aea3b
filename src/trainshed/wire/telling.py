"""What both dialects tell alike: why a job waits or has ended, and its labels of today."""

from collections.abc import Mapping
from typing import Any, Final

from trainshed.model.explanation import Explanation
from trainshed.model.refusals import Code
from trainshed.model.status import JobError, JobState, JobStatus

#: Clients take a cancelled pipeline without an error for a good one (contracts/vertex-sdk.md 1.7),
#: so an ending whose cause nobody recorded has one too.
UNRECORDED: Final[Mapping[JobState, JobError]] = {
    JobState.FAILED: JobError(code=Code.INTERNAL.number, message="The job failed."),
    JobState.CANCELLED: JobError(code=Code.CANCELLED.number, message="The job was cancelled."),
}


def states_of(words: Mapping[JobState, str]) -> dict[str, JobState]:
    """The state that a dialect's word means in a filter; one that stands for two means the first.

    Whoever evaluates the filter knows which states clients cannot tell apart.
    """
    found: dict[str, JobState] = {}
    for state, word in words.items():
        found.setdefault(word, state)
    return found


def ending(status: JobStatus) -> JobError | None:
    """The error of a job that failed or was cancelled; any other job has none."""
    unrecorded = UNRECORDED.get(status.state)
    return (status.error or unrecorded) if unrecorded else None


def waiting(explanation: Explanation) -> str:
    """Why a job waits, with what would admit it, in one line."""
    change = explanation.change
    message = explanation.message
    return f"{message.rstrip('.')}; it {change.text}" if change else message


def with_labels(document: dict[str, Any], labels: Mapping[str, str] | None) -> dict[str, Any]:
    """A document with the labels of today; None are still its own."""
    if labels is None:
        return document
    bare = {key: value for key, value in document.items() if key != "labels"}
    return {**bare, "labels": dict(labels)} if labels else bare
