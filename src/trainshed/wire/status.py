"""Renders what both dialects have in common: states, reasons, labels, errors."""

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from trainshed.model.explanation import Explanation
from trainshed.model.faults import FieldPath, Violation
from trainshed.model.refusals import Code, Refusal
from trainshed.model.status import JobError, JobState, JobStatus

#: The name of each state.  Neither dialect has a state for restarts or for an engine's queue, and
#: aiplatform v1 has another name for PREPARING (docs/sources/gcloud.md 10.3).
STATE: Final[Mapping[JobState, str]] = {
    **{state: state.name for state in JobState},
    JobState.ENQUEUED: "QUEUED",
    JobState.RESTARTING: "RUNNING",
}

#: Clients report a cancelled pipeline without an error as successful (docs/sources/vertex.md 1.7),
#: so an end without a recorded cause gets an error too.
UNRECORDED: Final[Mapping[JobState, JobError]] = {
    JobState.FAILED: JobError(code=Code.INTERNAL.number, message="The job failed."),
    JobState.CANCELLED: JobError(code=Code.CANCELLED.number, message="The job was cancelled."),
}


def states_of(words: Mapping[JobState, str]) -> dict[str, JobState]:
    """Return the state for each name in filters; for a name of two states, the first one.

    The store's filters do not distinguish states that have the same name for clients.
    """
    states: dict[str, JobState] = {}
    for state, word in words.items():
        states.setdefault(word, state)
    return states


def ending(status: JobStatus) -> JobError | None:
    """Return the error of a job that failed or was cancelled; None for any other job."""
    unrecorded = UNRECORDED.get(status.state)
    return (status.error or unrecorded) if unrecorded else None


def waiting(explanation: Explanation) -> str:
    """Return one line that says why a job waits, and which change would let it start."""
    change = explanation.change
    message = explanation.message
    return f"{message.rstrip('.')}; it {change.text}" if change else message


def with_labels(document: dict[str, Any], labels: Mapping[str, str] | None) -> dict[str, Any]:
    """Return a document with the current labels; None keeps the labels of the document."""
    if labels is None:
        return document
    unlabelled = {key: value for key, value in document.items() if key != "labels"}
    return {**unlabelled, "labels": dict(labels)} if labels else unlabelled


BAD_REQUEST: Final = "type.googleapis.com/google.rpc.BadRequest"

#: The most violations in a response, and their most bytes together.
VIOLATIONS_MAX: Final = 100
VIOLATIONS_BYTES_MAX: Final = 48 << 10
#: The most bytes of a message, and of the text and the field of one violation, as ASCII JSON.
MESSAGE_BYTES_MAX: Final = 8 << 10
TEXT_BYTES_MAX: Final = 8 << 10
FIELD_BYTES_MAX: Final = 2 << 10


def status_json(refusal: Refusal) -> dict[str, Any]:
    """Return the body of an HTTP error: ``{"error": {"code", "message", "status", "details"}}``.

    ``code`` is the HTTP status, as at Google, not the number of google.rpc.  As JSON in ASCII the
    body has at most 64 KiB, even if the caller sent very long values.
    """
    code = refusal.code
    error: dict[str, Any] = {
        "code": code.http,
        "message": shorten_text(refusal.message, MESSAGE_BYTES_MAX),
        "status": code.name,
    }
    if refusal.violations:
        error["details"] = [bad_request(refusal.violations)]
    return {"error": error}


def bad_request(violations: Sequence[Violation]) -> dict[str, Any]:
    """Return the violations as one detail; its last row counts the violations left out."""
    rows = [_violation(violation) for violation in violations[:VIOLATIONS_MAX]]
    sizes = accumulate(len(json.dumps(row)) for row in rows)
    fitting = sum(size <= VIOLATIONS_BYTES_MAX for size in sizes)
    if fitting < len(violations):
        count = min(fitting, VIOLATIONS_MAX - 1)
        more = {"field": "", "description": f"and {len(violations) - count} more"}
        rows = [*rows[:count], more]
    return {"@type": BAD_REQUEST, "fieldViolations": rows}


def shorten_text(text: str, bytes_max: int) -> str:
    """Return a text, shortened to at most about ``bytes_max`` bytes as JSON in ASCII."""
    prefix = text[:bytes_max]
    while len(json.dumps(prefix)) > bytes_max:
        prefix = prefix[: len(prefix) * 3 // 4]
    return text if prefix == text else f"{prefix}..."


def _violation(violation: Violation) -> dict[str, str]:
    """Render one violation, shortened to its limits."""
    field = violation.field
    text = violation.message
    if violation.accepted:
        text = f"{text.rstrip('.')}; accepted: {violation.accepted}"
    name = field.field.value if isinstance(field, FieldPath) else field
    return {
        "field": shorten_text(name, FIELD_BYTES_MAX),
        "description": shorten_text(text, TEXT_BYTES_MAX),
    }
