"""The errors of requests to a cluster's API server.

A refusal carries the fields of the API's ``Status`` object, because callers decide by them: a name
that exists already is read back, an expired version is listed anew.
"""

import errno
import json
from collections.abc import Mapping
from typing import Any, Final

#: Reasons of the API for which callers have their own handling.
NOT_FOUND: Final = "NotFound"
ALREADY_EXISTS: Final = "AlreadyExists"
FORBIDDEN: Final = "Forbidden"
EXPIRED: Final = "Expired"
UNAUTHORIZED: Final = "Unauthorized"

#: HTTP codes.
UNAUTHORIZED_CODE: Final = 401
GONE_CODE: Final = 410
BUSY_CODE: Final = 429
SERVER_ERROR_CODE: Final = 500
UNAVAILABLE_CODE: Final = 503

#: Reasons for an answer that has no Status, by HTTP code.
_REASONS: Final[Mapping[int, str]] = {
    400: "BadRequest",
    401: UNAUTHORIZED,
    403: FORBIDDEN,
    404: NOT_FOUND,
    405: "MethodNotAllowed",
    409: "Conflict",
    410: EXPIRED,
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
}
#: Characters of a text of the API, or of a proxy before it, that a message repeats.
_TEXT_MAX: Final = 2000


class ApiAway(OSError):
    """The API server gives no usable answer; the caller should repeat the request later."""

    def __init__(self, words: str) -> None:
        """Create a transient error with this message."""
        super().__init__(errno.EAGAIN, words)

    def __str__(self) -> str:
        """Return the message without the error number."""
        return str(self.strerror)


class ClientClosed(ApiAway):
    """The caller has closed the client; the API server may be well."""


class BrokenConnection(ApiAway):
    """The connection ended before its answer did."""


class RejectedCertificate(ApiAway):
    """The server or this client did not accept the other's certificate."""


class ApiRefused(Exception):
    """The API server has answered a request with an error."""

    def __init__(
        self, status: int, reason: str, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        """``status``: the HTTP code; the others are fields of the API's Status object."""
        super().__init__(message)
        self.status: Final = status
        self.reason: Final = reason
        self.message: Final = message
        self.details: Final[Mapping[str, Any]] = details or {}

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later without a change."""
        return self.status >= SERVER_ERROR_CODE or self.status in (
            UNAUTHORIZED_CODE,
            BUSY_CODE,
        )

    @property
    def is_expired(self) -> bool:
        """Whether the requested version of a list is no longer available."""
        return self.status == GONE_CODE

    @property
    def is_denied(self) -> bool:
        """Whether the account may not make this request, or the API does not serve the path."""
        return self.reason in (FORBIDDEN, NOT_FOUND)


def parse_status(value: object) -> ApiRefused | None:
    """Read a Status object; None: the value is no Status of a failure."""
    if not isinstance(value, dict) or value.get("kind") != "Status":
        return None
    code, details = value.get("code"), value.get("details")
    if value.get("status") != "Failure" or not isinstance(code, int):
        return None
    reason = str(value.get("reason") or _REASONS.get(code, "Unknown"))
    message = str(value.get("message") or reason)[:_TEXT_MAX]
    return ApiRefused(code, reason, message, details if isinstance(details, dict) else {})


def read_error(status: int, body: bytes) -> ApiRefused | ApiAway:
    """Read the body of an answer with an error code; without a Status a 5xx is ``ApiAway``."""
    try:
        refusal = parse_status(json.loads(body))
    except (ValueError, RecursionError):
        refusal = None
    if refusal is not None:
        return refusal
    text = " ".join(body[:_TEXT_MAX].decode(errors="replace").split())
    if status >= SERVER_ERROR_CODE or status == BUSY_CODE:
        return ApiAway(f"the API server answered HTTP {status}: {text or 'no text'}")
    reason = _REASONS.get(status, "Unknown")
    return ApiRefused(status, reason, text or f"HTTP {status}")
