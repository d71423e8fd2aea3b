"""Counts answers by API and status, with their times, for the page of metrics."""

import time
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trainshed.api.call import Method
from trainshed.model.refusals import Code, Refusal
from trainshed.model.roles import Dialect

#: Called with the API, the HTTP status and the seconds of an answer; None: it is a stream.
Answered = Callable[[str, int, float | None], None]
#: Called with the dialect of a refused create and the first rule that it broke.
Refused = Callable[[str, str], None]
GRPC: Final = "grpc"
_NATIVE: Final = "native"
#: The API of a path by its first segment; ``/v1`` has two.
_APIS: Final = {
    "v2": "logging_v2",
    "ui": Dialect.AIPLATFORM_V1.value,
    "v1beta1": Dialect.AIPLATFORM_V1.value,
    "storage": "storage_v1",
    "upload": "storage_v1",
    "resumable": "storage_v1",
    "download": "storage_v1",
    "batch": "storage_v1",
    "as": "storage_v1",
    "console": "console",
}
_STREAM: Final = b"text/event-stream"
#: Refusals for a limit, a size or a missing right are not refusals of the job itself.
_OF_JOBS: Final = frozenset({Code.INVALID_ARGUMENT, Code.ALREADY_EXISTS, Code.FAILED_PRECONDITION})


def api_of(path: str) -> str:
    """Return the API of a path: a closed set of names."""
    _, segment, *_ = (*path.split("/", 2), "")
    if segment == "v1":
        dialect = Dialect.AIPLATFORM_V1 if "/locations/" in path else Dialect.ML_V1
        return dialect.value
    return _APIS.get(segment, _NATIVE)


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
            answered(api_of(path), status, None if is_stream else time.perf_counter() - began)


def count_refusal(refused: Refused, method: Method | None, refusal: Refusal) -> None:
    """Count a create that was refused for its document."""
    if method is None or not method.is_create or refusal.code not in _OF_JOBS:
        return
    rule = refusal.violations[0].rule if refusal.violations else refusal.code.name.lower()
    refused(api_of(method.path), rule)
