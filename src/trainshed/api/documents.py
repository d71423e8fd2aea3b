"""Reads query strings and JSON, and writes JSON and refusals as google.rpc.Status.

``Retry-After`` is sent with 429 alone: outside 429 and 5xx it makes gcloud repeat the request even
after a 200, and with 5xx it is not needed (docs/sources/gcloud.md 8.2).
"""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, Final, NoReturn
from urllib.parse import parse_qsl

from starlette.responses import Response

from trainshed.model.faults import Violation
from trainshed.model.json_reader import (
    VALUES_MAX,
    BadJson,
    check_document,
    read_json,
    read_object,
)
from trainshed.model.refusals import Code, Refusal, Throttled
from trainshed.wire.status import status_json

#: Parameters of every Google API that concern the transport, not the call
#: (the discovery documents' own ``parameters``), as do all names that start with ``$``.
SYSTEM: Final = frozenset(
    {
        "access_token",
        "alt",
        "callback",
        "fields",
        "key",
        "oauth_token",
        "prettyPrint",
        "quotaUser",
        "uploadType",
        "upload_protocol",
    }
)

#: The most parameters of a query; clients send fewer.
PARAMETERS_MAX: Final = 100

_UNDERSCORE = re.compile(r"_([a-z])")


def read_query(text: str, names: Collection[str]) -> dict[str, str]:
    """Return the call's own parameters in camelCase; snake_case is accepted, as at Google.

    Raises a Refusal for a parameter that is unknown, given twice, or not text.
    """
    query: dict[str, str] = {}
    for name, value in _pairs(text):
        if name.startswith("$") or name in SYSTEM:
            continue
        camel = _UNDERSCORE.sub(lambda match: match[1].upper(), name)
        if camel not in names:
            raise _unknown(name, names)
        if camel in query:
            message = f"query parameter {name} is given twice"
            raise _refusal(name, "duplicate-field", message, "one value")
        if "\0" in value:
            message = f"query parameter {name} must not contain the character U+0000"
            raise _refusal(name, "wrong-type", message, "a text")
        query[camel] = value
    return query


def _pairs(text: str) -> list[tuple[str, str]]:
    if not text:
        return []
    try:
        return parse_qsl(
            text, keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX
        )
    except ValueError as error:
        raise Refusal(Code.INVALID_ARGUMENT, f"the query cannot be read: {error}") from None


def _unknown(name: str, names: Collection[str]) -> Refusal:
    """Refuse in Google's own words, so that a user who searches for them finds the cause."""
    message = (
        f'Invalid JSON payload received. Unknown name "{name[:100]}": Cannot bind query parameter.'
        f" Field '{name[:100]}' could not be found in request message."
    )
    return _refusal(name, "unknown-field", message, ", ".join(names) or "no parameters")


def _refusal(name: str, rule: str, message: str, accepted: str) -> Refusal:
    violation = Violation(field=name[:100], rule=rule, message=message, accepted=accepted)
    return Refusal(Code.INVALID_ARGUMENT, message, (violation,))


class TransportRefusal(Refusal):
    """A refusal with an HTTP status of its own, and headers."""

    def __init__(self, code: Code, message: str, http: int, allow: str = "") -> None:
        """``http`` is the status; ``allow`` is the header of a 405."""
        super().__init__(code, message)
        self.http = http
        self.allow = allow


def http_status(refusal: Refusal) -> int:
    """Return the HTTP status of a refusal."""
    return refusal.http if isinstance(refusal, TransportRefusal) else refusal.code.http


def read_document(body: bytes, content_type: str) -> dict[str, Any]:
    """Return the object in the body; an empty body is an empty object, as with Google.

    Raises a Refusal that says where the text stops being JSON.
    """
    if not body.strip():
        return {}
    kind = content_type.partition(";")[0].strip().lower()
    if kind and kind != "application/json" and not kind.endswith("+json"):
        message = f"the body is {kind[:100]}; send JSON with Content-Type: application/json"
        raise Refusal(Code.INVALID_ARGUMENT, message)
    try:
        return read_object(body)
    except BadJson as error:
        raise _bad_json(error) from None


def check_json(body: bytes, content_type: str, values_max: int = VALUES_MAX) -> None:
    """Raise a Refusal for a body of type JSON that is not valid JSON, or has too many values."""
    if "json" in content_type.lower() and body.strip():
        try:
            read_json(body, values_max)
        except BadJson as error:
            raise _bad_json(error) from None


def refuse_unstorable(document: Mapping[str, Any]) -> None:
    """Raise a Refusal for values that JSON cannot express."""
    try:
        check_document(document)
    except BadJson as error:
        raise _bad_json(error) from None


def _bad_json(error: BadJson) -> Refusal:
    return Refusal(Code.INVALID_ARGUMENT, f"Invalid JSON payload received. {error}.")


def write_document(document: Any) -> bytes:
    """Write a document without blanks.  Raises ValueError for NaN and infinities."""
    return _ENCODER.encode(document).encode("ascii")


def refuse_large(bytes_max: int) -> NoReturn:
    """Raise the Refusal of a body over the limit."""
    message = f"the body is larger than {bytes_max} bytes; upload large files to a bucket"
    raise TransportRefusal(Code.INVALID_ARGUMENT, message, http=413)


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


_MEDIA_TYPE: Final = "application/json; charset=UTF-8"
_HEADERS: Final = {"X-Content-Type-Options": "nosniff"}


def json_bytes_response(content: bytes, status: int = 200) -> Response:
    """Return a response with JSON that is already written."""
    return Response(content, status, headers=_HEADERS, media_type=_MEDIA_TYPE)


def json_response(document: Any, status: int = 200) -> Response:
    """Return a response with a document as JSON."""
    return json_bytes_response(write_document(document), status)


def refusal_response(refusal: Refusal) -> Response:
    """Return ``{"error": {"code", "message", "status", "details"}}`` with its HTTP status."""
    document = status_json(refusal)
    status = http_status(refusal)
    document["error"]["code"] = status
    response = json_response(document, status)
    if isinstance(refusal, TransportRefusal) and refusal.allow:
        response.headers["Allow"] = refusal.allow
    if isinstance(refusal, Throttled):
        response.headers["Retry-After"] = str(refusal.retry_after_s)
    return response
