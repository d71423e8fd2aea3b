"""Cloud Logging and Cloud Monitoring by REST: writes are accepted, other calls are refused.

Both are for programs of attempts only; the gateway has identified the caller.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from trainshed.api.connections import CONNECTION
from trainshed.api.documents import json_bytes_response, refusal_response
from trainshed.api.gateway.accepting import authority_of
from trainshed.api.incoming import read_body
from trainshed.api.threads import THREADS
from trainshed.model.refusals import Code, Refusal
from trainshed.service.gateway.attempts import LivingAttempt
from trainshed.service.gateway.places import LOGGING_HOST
from trainshed.service.gateway.telemetry import Telemetry
from trainshed.wire.logging_v2.written import TooManyEntries, UnreadEntries, lines_of_json

#: Google accepts 10 MB of entries in a request.
BODY_BYTES_MAX: Final = 16 << 20
NOTHING_TO_READ: Final = (
    "this server does not answer for {what}: programs of jobs may write to Cloud Logging and Cloud "
    "Monitoring, and cannot read or change anything there"
)
TRY_AGAIN: Final = "The server cannot write to the job's log now; try again in a moment"

_ENTRIES: Final = re.compile(r"/v2/entries:write")
_SERIES: Final = re.compile(r"/v3/projects/[^/]+/timeSeries(?::createService)?")
#: The answer to these requests is the request's own body.
_DESCRIPTORS: Final = re.compile(r"/v3/projects/[^/]+/metricDescriptors")


def app(telemetry: Telemetry) -> ASGIApp:
    """Return the ASGI application of both APIs."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await _answer(scope, receive, telemetry)
        except Refusal as refused:
            response = refusal_response(refused)
        await response(scope, receive, send)

    return answer


async def _answer(scope: Scope, receive: Receive, telemetry: Telemetry) -> Response:
    body = await read_body(receive, b"", BODY_BYTES_MAX)
    if len(body) > BODY_BYTES_MAX:
        raise Refusal(Code.INVALID_ARGUMENT, f"The body is larger than {BODY_BYTES_MAX} bytes")
    host, peer = authority_of(scope), scope["state"][CONNECTION].peer
    if not _is_supported_write(scope, host):
        what = f"{scope['method']} {host}{scope['path'][:200]}"
        raise Refusal(Code.PERMISSION_DENIED, NOTHING_TO_READ.format(what=what))
    if not await THREADS.run(_take, telemetry, peer, host, body):
        raise Refusal(Code.UNAVAILABLE, TRY_AGAIN)
    return json_bytes_response(body if _DESCRIPTORS.fullmatch(scope["path"]) else b"{}")


def _is_supported_write(scope: Scope, host: str) -> bool:
    forms = (_ENTRIES,) if host == LOGGING_HOST else (_SERIES, _DESCRIPTORS)
    return scope["method"] == "POST" and any(form.fullmatch(scope["path"]) for form in forms)


def _take(telemetry: Telemetry, peer: LivingAttempt, host: str, body: bytes) -> bool:
    keeps = telemetry.keeps and host == LOGGING_HOST
    with refusing_unread():
        lines = lines_of_json(body) if keeps else ()
    return telemetry.take(peer, host, lines)


@contextmanager
def refusing_unread() -> Iterator[None]:
    """Turn unreadable entries into a Refusal."""
    try:
        yield
    except TooManyEntries as error:
        raise Refusal(Code.RESOURCE_EXHAUSTED, str(error)) from None
    except UnreadEntries as error:
        raise Refusal(Code.INVALID_ARGUMENT, str(error)) from None
