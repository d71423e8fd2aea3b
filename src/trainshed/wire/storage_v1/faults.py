"""A request of the storage API that cannot be read, and the body that says so."""

from typing import Any

#: The ``reason`` that Google gives with a status.
REASONS = {
    400: "invalid",
    401: "authError",
    403: "forbidden",
    404: "notFound",
    409: "conflict",
    412: "conditionNotMet",
    416: "requestedRangeNotSatisfiable",
    499: "clientClosedRequest",
    501: "notImplemented",
    503: "backendError",
    507: "insufficientStorage",
}


class BadStorageRequest(Exception):
    """The caller's mistake; the message is for the caller."""


def error_json(code: int, message: str) -> dict[str, Any]:
    """An error in the storage API's own form, which its clients print the message of."""
    reason = REASONS.get(code, "invalid" if code < 500 else "backendError")  # noqa: PLR2004 -- HTTP
    return {
        "error": {
            "code": code,
            "message": message,
            "errors": [{"message": message, "domain": "global", "reason": reason}],
        }
    }
