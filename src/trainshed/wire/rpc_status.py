"""A refusal as Google's clients read it: ``google.rpc.Status`` (contracts/gcloud.md 8.1)."""

from collections.abc import Sequence
from typing import Any, Final

from trainshed.model.faults import FieldPath, Violation
from trainshed.model.refusals import Refusal

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
