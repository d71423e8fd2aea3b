"""Refusals of the API server: each exception carries the Status that the HTTP server answers."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .kinds import Resource

#: Words of a cause's ``reason`` in a message.
_CAUSES = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueNotFound": "Not found",
    "FieldValueTooLong": "Too long",
    "FieldValueTypeInvalid": "Invalid value",
    "InternalError": "Internal error",
}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field at fault: ``field``, the reason of its cause and its text after the reason."""

    field: str
    reason: str
    detail: str = ""
    value: Any = None

    @property
    def message(self) -> str:
        words = _CAUSES[self.reason]
        if self.reason in ("InternalError", "FieldValueForbidden", "FieldValueRequired"):
            return f"{words}: {self.detail}" if self.detail else words
        shown = to_go_text(self.value)
        text = f"{words}: {shown}: {self.detail}" if self.detail else f"{words}: {shown}"
        return text if shown else f"{words}: {self.detail}"

    @property
    def cause(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.message, "field": self.field}


class _Bare(str):
    """A value that a message shows without quotes, or not at all where it is empty."""

    __slots__ = ()


NO_VALUE = _Bare("")


def to_go_text(value: Any) -> str:
    """Text as Go's field errors show it: JSON without blanks."""
    if isinstance(value, _Bare):
        return str(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class ApiError(Exception):
    """The base of all refusals; ``status`` is the body of the answer, ``code`` its HTTP status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s
        self.status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
        }
        if details is not None:
            self.status["details"] = dict(details)
        self.status["code"] = code


def _describe(resource: Resource, name: str, *, kind: str | None = None) -> dict[str, Any]:
    details = {"name": name, "group": resource.group, "kind": kind or resource.plural}
    return {key: value for key, value in details.items() if value}


class NotFound(ApiError):
    def __init__(self, resource: Resource, name: str) -> None:
        message = f'{resource.qualified_plural} "{name}" not found'
        super().__init__(404, "NotFound", message, _describe(resource, name))


class AlreadyExists(ApiError):
    def __init__(self, resource: Resource, name: str, *, is_deleted: bool = False) -> None:
        message = f'{resource.qualified_plural} "{name}" already exists'
        if is_deleted:
            message = f"object is being deleted: {message}"
        super().__init__(409, "AlreadyExists", message, _describe(resource, name))


class Conflict(ApiError):
    """A stale resourceVersion, or with ``detail`` a precondition that does not hold."""

    STALE = (
        "the object has been modified; please apply your changes to the latest version and try "
        "again"
    )

    def __init__(
        self, resource: Resource, name: str, detail: str = STALE, *, names_kind: bool = False
    ) -> None:
        subject = resource.qualified_kind if names_kind else resource.qualified_plural
        message = f'Operation cannot be fulfilled on {subject} "{name}": {detail}'
        kind = resource.kind if names_kind else resource.plural
        super().__init__(409, "Conflict", message, _describe(resource, name, kind=kind))


class Invalid(ApiError):
    """Fields at fault (422); ``webhook`` names the admission webhook that refused."""

    def __init__(
        self, resource: Resource, name: str, errors: Iterable[FieldError], *, webhook: str = ""
    ) -> None:
        errors = list(errors)
        texts = list(dict.fromkeys(f"{error.field}: {error.message}" for error in errors))
        joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        message = f'{resource.qualified_kind} "{name}" is invalid: {joined}'
        if webhook:
            message = f'admission webhook "{webhook}" denied the request: {message}'
        details = _describe(resource, name, kind=resource.kind)
        details["causes"] = [error.cause for error in errors]
        super().__init__(422, "Invalid", message, details)


class Forbidden(ApiError):
    """An authorizer's or an admission plugin's refusal (403) of one object."""

    def __init__(self, resource: Resource, name: str, detail: str) -> None:
        named = f' "{name}"' if name else ""
        message = f"{resource.qualified_plural}{named} is forbidden: {detail}"
        super().__init__(403, "Forbidden", message, _describe(resource, name))


class Denied(ApiError):
    """The refusal of a webhook of the tests (``sentence`` is its own text)."""

    def __init__(self, webhook: str, sentence: str, code: int = 403) -> None:
        message = f'admission webhook "{webhook}" denied the request: {sentence}'
        super().__init__(code, "Forbidden" if code == 403 else "Invalid", message)


class BadRequest(ApiError):
    def __init__(self, message: str) -> None:
        super().__init__(400, "BadRequest", message)


class Expired(ApiError):
    def __init__(self, message: str) -> None:
        super().__init__(410, "Expired", message)


class Unauthorized(ApiError):
    def __init__(self) -> None:
        super().__init__(401, "Unauthorized", "Unauthorized")


class UnsupportedMediaType(ApiError):
    def __init__(self, accepted: Iterable[str]) -> None:
        message = (
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(accepted)
        )
        super().__init__(415, "UnsupportedMediaType", message)


class TooLargeVersion(ApiError):
    """A list at a resourceVersion of the future (504)."""

    def __init__(self, wanted: int, current: int) -> None:
        causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
        message = f"Timeout: Too large resource version: {wanted}, current: {current}"
        details = {"causes": causes, "retryAfterSeconds": 1}
        super().__init__(504, "Timeout", message, details, retry_after_s=1)


class PathNotFound(Exception):
    """No such path: the server answers 404 with plain text, not with a Status."""
