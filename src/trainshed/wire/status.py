"""What both dialects say alike: why a job waits or ended, its labels, why a call is refused."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from trainshed.model.explanation import Explanation
from trainshed.model.faults import FieldPath, Violation
from trainshed.model.refusals import Code, Refusal
from trainshed.model.status import JobError, JobState, JobStatus

#: The word for every state.  Neither dialect has one for a restart, and aiplatform v1 calls
#: PREPARING otherwise (contracts/gcloud.md 10.3).
STATE: Final[Mapping[JobState, str]] = {
    **{state: state.name for state in JobState},
    JobState.RESTARTING: "RUNNING",
}

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


BAD_REQUEST: Final = "type.googleapis.com/google.rpc.BadRequest"


def status_json(refusal: Refusal) -> dict[str, Any]:
    """The body of an HTTP error: ``{"error": {"code", "message", "status", "details"}}``.

    ``code`` is the HTTP status, as Google writes it, and not google.rpc's number.
    """
    code = refusal.code
    error: dict[str, Any] = {
        "code": code.http,
        "message": refusal.message,
        "status": code.name,
    }
    if refusal.violations:
        error["details"] = [bad_request(refusal.violations)]
    return {"error": error}


def bad_request(violations: Sequence[Violation]) -> dict[str, Any]:
    """All violations in one detail, in the caller's own field names."""
    return {"@type": BAD_REQUEST, "fieldViolations": [_violation(v) for v in violations]}


def _violation(violation: Violation) -> dict[str, str]:
    field = violation.field
    text = violation.message
    if violation.accepted:
        text = f"{text.rstrip('.')}; accepted: {violation.accepted}"
    name = field.field.value if isinstance(field, FieldPath) else field
    return {"field": name, "description": text}
