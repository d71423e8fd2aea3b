"""Answers on HTTP: compact JSON with its length, and refusals as google.rpc.Status.

``Retry-After`` is never sent: outside 429 and 5xx it makes gcloud repeat the request even after a
200, and there it is not needed (contracts/gcloud.md 8.2).
"""

from typing import Any, Final

from starlette.responses import Response

from trainshed.api.documents import write_document
from trainshed.api.transport_refusals import TransportRefusal, http_status
from trainshed.model.refusals import Refusal
from trainshed.wire.status import status_json

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
    return response
