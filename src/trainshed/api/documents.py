"""What HTTP carries: query strings, JSON read and written, refusals as google.rpc.Status.

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
from trainshed.model.json_reader import BadJson, check_document, read_json, read_object
from trainshed.model.refusals import Code, Refusal, Throttled
from trainshed.wire.status import status_json

#: Parameters of every Google API, about the transport and not about the call
#: (the discovery documents' own ``parameters``); all names that start with ``$`` belong to them.
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

#: More parameters than any client sends.
PARAMETERS_MAX: Final = 100

_LOW_LINE = re.compile(r"_([a-z])")


def read_query(text: str, names: Collection[str]) -> dict[str, str]:
    """The call's own parameters in camelCase; Google's servers take snake_case too.

    Raises a Refusal for what is unknown, given twice, or no text.
    """
    query: dict[str, str] = {}
    for name, value in _pairs(text):
        if name.startswith("$") or name in SYSTEM:
            continue
        camel = _LOW_LINE.sub(lambda match: match[1].upper(), name)
        if camel not in names:
            raise _unknown(name, names)
        if camel in query:
            message = f"query parameter {name} is given twice"
            raise _refusal(name, "duplicate-field", message, "one value")
        if "\0" in value:
            message = f"query parameter {name} holds the character U+0000"
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
    """Google's own words for it, so that whoever searches for them finds the cause."""
    message = (
        f'Invalid JSON payload received. Unknown name "{name[:100]}": Cannot bind query parameter.'
        f" Field '{name[:100]}' could not be found in request message."
    )
    return _refusal(name, "unknown-field", message, ", ".join(names) or "no parameters")


def _refusal(name: str, rule: str, message: str, accepted: str) -> Refusal:
    violation = Violation(field=name[:100], rule=rule, message=message, accepted=accepted)
    return Refusal(Code.INVALID_ARGUMENT, message, (violation,))


class TransportRefusal(Refusal):
    """A refusal with an HTTP status beside its code's, and headers that belong to it."""

    def __init__(self, code: Code, message: str, http: int, allow: str = "") -> None:
        """Keep the status; ``allow`` is the header of a 405."""
        super().__init__(code, message)
        self.http = http
        self.allow = allow


def http_status(refusal: Refusal) -> int:
    """The HTTP status of any refusal."""
    return refusal.http if isinstance(refusal, TransportRefusal) else refusal.code.http


def read_document(body: bytes, content_type: str) -> dict[str, Any]:
    """The object in the body; an empty body is an empty object, as with Google.

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


def check_json(body: bytes, content_type: str) -> None:
    """Refuse a body that calls itself JSON and is none that is read.  Raises a Refusal."""
    if "json" in content_type.lower() and body.strip():
        try:
            read_json(body)
        except BadJson as error:
            raise _bad_json(error) from None


def refuse_unstorable(document: Mapping[str, Any]) -> None:
    """Raise a Refusal for a document that JSON could not have brought."""
    try:
        check_document(document)
    except BadJson as error:
        raise _bad_json(error) from None


def _bad_json(error: BadJson) -> Refusal:
    return Refusal(Code.INVALID_ARGUMENT, f"Invalid JSON payload received. {error}.")


def write_document(document: Any) -> bytes:
    """A document without blanks.  Raises ValueError for numbers that JSON does not have."""
    return _ENCODER.encode(document).encode("ascii")


def refuse_large(bytes_max: int) -> NoReturn:
    """Raise the Refusal of a body over the limit."""
    message = f"the body is larger than {bytes_max} bytes; upload large files to a bucket"
    raise TransportRefusal(Code.INVALID_ARGUMENT, message, http=413)


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


_MEDIA_TYPE: Final = "application/json; charset=UTF-8"
_HEADERS: Final = {"X-Content-Type-Options": "nosniff"}


def json_bytes_response(content: bytes, status: int = 200) -> Response:
    """A document that is written already."""
    return Response(content, status, headers=_HEADERS, media_type=_MEDIA_TYPE)


def json_response(document: Any, status: int = 200) -> Response:
    """A document as its clients read it."""
    return json_bytes_response(write_document(document), status)


def refusal_response(refusal: Refusal) -> Response:
    """``{"error": {"code", "message", "status", "details"}}`` with the HTTP status of the code."""
    document = status_json(refusal)
    status = http_status(refusal)
    document["error"]["code"] = status
    response = json_response(document, status)
    if isinstance(refusal, TransportRefusal) and refusal.allow:
        response.headers["Allow"] = refusal.allow
    if isinstance(refusal, Throttled):
        response.headers["Retry-After"] = str(refusal.retry_after_s)
    return response
