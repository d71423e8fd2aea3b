"""Batches: many calls of the JSON API in one request, which gcsfs uses to remove files.

Each part is answered like a separate request, in order.
https://cloud.google.com/storage/docs/batch
"""

import json
import secrets
from dataclasses import dataclass
from email.message import Message as Mail
from email.parser import BytesParser
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Scope

from trainshed.api.incoming import Incoming, read_whole, received_again
from trainshed.api.storage_call import refusal
from trainshed.model.refusals import Refusal

PATHS: Final = ("/batch/storage/v1", "/batch")
#: Google accepts 100, but its own Python client sends up to this number.
CALLS_MAX: Final = 1000
BYTES_MAX: Final = 8 << 20
_JSON: Final = "/storage/v1/"
_OUTER_KEYS: Final = ("type", "asgi", "http_version", "server", "client", "scheme")
#: Headers that come from the part; the other headers come from the whole request.
_PART_KEYS: Final = frozenset(
    {b"content-type", b"content-length", b"transfer-encoding", b"if-match"}
)


class BadBatch(Exception):
    """The body is not a valid batch; the message says why."""


@dataclass(frozen=True, slots=True)
class BatchPart:
    """One call of a batch."""

    content_id: str
    verb: str
    target: str
    headers: Mail
    body: bytes


def batched(storage: ASGIApp) -> Any:
    """Return an endpoint that lets ``storage`` answer each part."""

    async def endpoint(request: Request) -> Response:
        try:
            body = await read_whole(request.scope, Incoming(request.receive), BYTES_MAX)
            parts = parts_of(request.headers.get("content-type", ""), body)
        except Refusal as refused:
            return refusal(refused.code.http, refused.message)
        except BadBatch as error:
            return refusal(HTTPStatus.BAD_REQUEST, str(error))
        boundary = f"batch_{secrets.token_hex(12)}"
        answers = [await _answer(storage, request, part) for part in parts]
        pieces = [f"--{boundary}\r\n".encode() + answer + b"\r\n" for answer in answers]
        content = b"".join((*pieces, f"--{boundary}--\r\n".encode()))
        # unquoted: gcsfs takes everything after the equals sign as the boundary
        return Response(content, headers={"content-type": f"multipart/mixed; boundary={boundary}"})

    return endpoint


def parts_of(content_type: str, body: bytes) -> list[BatchPart]:
    """Return the calls of a batch.  Raises BadBatch."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1", "replace")
    mail = BytesParser().parsebytes(head + body)
    if not mail.is_multipart():
        raise BadBatch("A batch must be multipart/mixed, and each part application/http")
    parts = [_part(part) for part in mail.get_payload() if isinstance(part, Mail)]
    if not 0 < len(parts) <= CALLS_MAX:
        raise BadBatch(f"A batch must have 1 to {CALLS_MAX} calls, got {len(parts)}")
    return parts


def _part(mail: Mail) -> BatchPart:
    content = mail.get_payload(decode=True)
    if not isinstance(content, bytes):
        raise BadBatch("A part of a batch must be application/http")
    line, _, rest = content.lstrip().partition(b"\n")
    words = line.decode("latin-1").split()
    if len(words) < 2:  # noqa: PLR2004 - a verb and a path
        raise BadBatch(
            "A part of a batch must begin with a verb and a path, such as GET /storage/v1/b/B/o/N"
        )
    inner = BytesParser().parsebytes(rest)
    body = inner.get_payload(decode=True)
    return BatchPart(
        content_id=mail.get("Content-ID", ""),
        verb=words[0],
        target=words[1],
        headers=inner,
        body=body if isinstance(body, bytes) else b"",
    )


async def _answer(storage: ASGIApp, request: Request, part: BatchPart) -> bytes:
    """Return a part of the answer: headers, an empty line, and an HTTP response."""
    status, headers, content = await _call_storage(storage, request, part)
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    outer = ["Content-Type: application/http"]
    if part.content_id:
        outer.append(f"Content-ID: <response-{part.content_id.strip('<>')}>")
    head = "\r\n".join((*outer, "", *lines, "", ""))
    return head.encode("latin-1", "replace") + content


async def _call_storage(
    storage: ASGIApp, request: Request, part: BatchPart
) -> tuple[int, dict[str, str], bytes]:
    url = urlsplit(part.target)
    if not url.path.startswith(_JSON) or "alt=media" in url.query:
        message = "A batch must have calls of the JSON API that do not transfer object data"
        return _json_answer(HTTPStatus.BAD_REQUEST, message)
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = _scope(request.scope, part, url.path, url.query)
    await storage(scope, received_again(part.body, request.receive), send)
    headers = {
        name.decode().title(): value.decode("latin-1")
        for message in sent
        for name, value in message.get("headers", ())
    }
    content = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], headers, content


def _scope(outer: Scope, part: BatchPart, path: str, query: str) -> Scope:
    headers = [
        (name.lower().encode(), value.encode("latin-1")) for name, value in part.headers.items()
    ]
    outer_headers = [header for header in outer["headers"] if header[0] not in _PART_KEYS]
    return {
        **{key: outer[key] for key in _OUTER_KEYS},
        "method": part.verb,
        "path": unquote(path),
        "raw_path": path.encode("latin-1", "replace"),
        "root_path": "",
        "query_string": query.encode("latin-1", "replace"),
        "headers": [
            *outer_headers,
            *(header for header in headers if header[0] in _PART_KEYS),
        ],
        "state": dict(outer.get("state", {})),
    }


def _json_answer(status: int, message: str) -> tuple[int, dict[str, str], bytes]:
    content = json.dumps({"error": {"code": status, "message": message}}).encode()
    length = {"Content-Type": "application/json", "Content-Length": str(len(content))}
    return status, length, content
