"""Texts and documents that both dialects share: states, reasons, labels, errors."""

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from trainshed.model.explanation import Explanation
from trainshed.model.faults import FieldPath, Violation
from trainshed.model.refusals import Code, Refusal
from trainshed.model.status import JobError, JobState, JobStatus

#: The word for every state.  Neither dialect has one for a restart or for an engine's own queue,
#: and aiplatform v1 calls PREPARING otherwise (docs/sources/gcloud.md 10.3).
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
    """The state that a dialect's word means in a filter; one that stands for two means the first.

    The evaluation of the filter treats states alike that clients cannot distinguish.
    """
    states: dict[str, JobState] = {}
    for state, word in words.items():
        states.setdefault(word, state)
    return states


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

#: The most violations in a response, and the most bytes of them.
VIOLATIONS_MAX: Final = 100
VIOLATIONS_BYTES_MAX: Final = 48 << 10
#: Bytes of a message, and of the text and the field of one violation, as JSON in ASCII.
MESSAGE_BYTES_MAX: Final = 8 << 10
TEXT_BYTES_MAX: Final = 8 << 10
FIELD_BYTES_MAX: Final = 2 << 10


def status_json(refusal: Refusal) -> dict[str, Any]:
    """The body of an HTTP error: ``{"error": {"code", "message", "status", "details"}}``.

    ``code`` is the HTTP status, as Google writes it, and not google.rpc's number.  As JSON in
    ASCII it has at most 64 KiB, whatever the caller has sent.
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
    """The violations in one detail, in the caller's own field names; how many more, at the end."""
    rows = [_violation(violation) for violation in violations[:VIOLATIONS_MAX]]
    sizes = accumulate(len(json.dumps(row)) for row in rows)
    fitting = sum(size <= VIOLATIONS_BYTES_MAX for size in sizes)
    if fitting < len(violations):
        count = min(fitting, VIOLATIONS_MAX - 1)
        more = {"field": "", "description": f"and {len(violations) - count} more"}
        rows = [*rows[:count], more]
    return {"@type": BAD_REQUEST, "fieldViolations": rows}


def shorten_text(text: str, bytes_max: int) -> str:
    """A text for a person, cut where it would have more bytes as JSON in ASCII."""
    prefix = text[:bytes_max]
    while len(json.dumps(prefix)) > bytes_max:
        prefix = prefix[: len(prefix) * 3 // 4]
    return text if prefix == text else f"{prefix}..."


def _violation(violation: Violation) -> dict[str, str]:
    field = violation.field
    text = violation.message
    if violation.accepted:
        text = f"{text.rstrip('.')}; accepted: {violation.accepted}"
    name = field.field.value if isinstance(field, FieldPath) else field
    return {
        "field": shorten_text(name, FIELD_BYTES_MAX),
        "description": shorten_text(text, TEXT_BYTES_MAX),
    }
