"""Counts answers by API and status, with their times, for the page of metrics."""

import time
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trainshed.api.api_names import find_api
from trainshed.api.call import Method
from trainshed.model.refusals import Code, Refusal

#: Called with the API, the HTTP status and the seconds of an answer; None: it is a stream.
Answered = Callable[[str, int, float | None], None]
#: Called with the dialect of a refused create and the first rule that it broke.
Refused = Callable[[str, str], None]
_STREAM: Final = b"text/event-stream"
#: Refusals for a limit, a size or a missing right are not refusals of the job itself.
_OF_JOBS: Final = frozenset({Code.INVALID_ARGUMENT, Code.ALREADY_EXISTS, Code.FAILED_PRECONDITION})


async def measure(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, answered: Answered
) -> None:
    """Let ``app`` answer a request, and count the answer when it has ended."""
    began, path = time.perf_counter(), scope["path"]
    status, is_stream = 0, False

    async def counted_send(message: Message) -> None:
        nonlocal status, is_stream
        if message["type"] == "http.response.start":
            status = message["status"]
            is_stream = any(
                name.lower() == b"content-type" and value.startswith(_STREAM)
                for name, value in message.get("headers", ())
            )
        await send(message)

    try:
        await app(scope, receive, counted_send)
    finally:
        if status:
            answered(find_api(path), status, None if is_stream else time.perf_counter() - began)


def count_refusal(refused: Refused, method: Method | None, refusal: Refusal) -> None:
    """Count a create that was refused for its document."""
    if method is None or not method.is_create or refusal.code not in _OF_JOBS:
        return
    rule = refusal.violations[0].rule if refusal.violations else refusal.code.name.lower()
    refused(find_api(method.path), rule)
