"""Turns HTTP requests into the chain's input.

A body that is too long is never kept in memory, and its sender still gets an answer.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from trainshed.api.chain import CLIENT_GONE, RequestContext
from trainshed.api.documents import refuse_large
from trainshed.api.guards import is_loopback
from trainshed.model.refusals import Code, Refusal


class Gone(Protocol):
    """A call whose client may disconnect before the answer."""

    gone: bool


_FIELDS: Final[Mapping[bytes, str]] = {
    b"authorization": "authorization",
    b"content-type": "content_type",
    b"cookie": "cookie",
    b"host": "host",
    b"origin": "origin",
    b"sec-fetch-dest": "fetch_dest",
    b"sec-fetch-mode": "fetch_mode",
    b"sec-fetch-site": "fetch_site",
    b"user-agent": "user_agent",
    b"x-trainshed-csrf": "csrf",
}


#: Headers that may be given only once: of two, some programs use the first, others the last.
_ONCE: Final = frozenset({"host", "authorization"})


def request_context(scope: Scope) -> RequestContext:
    """Return the call without its body.  HEAD becomes GET; the server omits the body."""
    verb: str = scope["method"]
    client = scope.get("client")
    address = client[0] if client else ""
    context = RequestContext(
        scheme=scope.get("scheme", "http"),
        verb="GET" if verb == "HEAD" else verb,
        path=(scope.get("raw_path") or scope["path"].encode()).decode("latin-1"),
        query_string=scope["query_string"].decode("latin-1"),
        loopback=is_loopback(address),
        address=address,
        in_path=scope.get("state", {}).get("token_in_path", False),
    )
    for name, value in scope["headers"]:
        field = _FIELDS.get(name)
        if field:
            if field in _ONCE and getattr(context, field) is not None:
                context.repeated = name.decode("latin-1")
            setattr(context, field, value.decode("latin-1"))
    return context


def length_of(scope: Scope) -> int:
    """Return the Content-Length of the body; 0 without one."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


async def read_body(receive: Receive, begun: bytes, bytes_max: int) -> bytes:
    """Return a body, given its first part, or ``bytes_max + 1`` bytes of a longer one.

    Raises a Refusal if the client disconnected, because the body is incomplete.
    """
    parts, size, more = [begun], len(begun), True
    while more and size <= bytes_max:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(Code.CANCELLED, CLIENT_GONE)
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
    return b"".join(parts)[: bytes_max + 1]


#: Bytes of a refused body that are read before the connection is closed.
DRAINED_BYTES_MAX: Final = 64 << 20


class Incoming:
    """A request's body as it arrives; ``more`` is whether more bytes may follow."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.more = True

    async def __call__(self) -> Message:
        """Return the next message."""
        message = await self._receive()
        self.more = message.get("more_body", False)
        return message


async def read_whole(
    scope: Scope, incoming: Incoming, bytes_max: int, *, begun: bytes = b""
) -> bytes:
    """Return the body, whose beginning may have been read.  Raises a Refusal (413) if too long."""
    if length_of(scope) > bytes_max:
        refuse_large(bytes_max)
    body = await read_body(incoming, begun, bytes_max)
    if len(body) > bytes_max:
        refuse_large(bytes_max)
    return body


#: Seconds after which a call is watched; most calls end sooner, and each watch needs a task.
WATCHED_AFTER_S: Final = 0.05


@contextlib.contextmanager
def watched(incoming: Receive, call: Gone) -> Iterator[None]:
    """Set ``call.gone`` when the client disconnects before the answer.

    The body must have been read, so that the next message can only be the disconnect.
    """
    tasks: list[asyncio.Task[None]] = []

    async def watch() -> None:
        while (await incoming())["type"] != "http.disconnect":
            pass
        call.gone = True

    def begin() -> None:
        tasks.append(asyncio.ensure_future(watch()))

    timer = asyncio.get_running_loop().call_later(WATCHED_AFTER_S, begin)
    try:
        yield
    finally:
        timer.cancel()
        for task in tasks:
            task.cancel()


def received_again(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` for an application that reads the body itself."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again


async def answer_early(response: Response, scope: Scope, incoming: Incoming, send: Send) -> None:
    """Answer, then read what is left of the body.

    A client that sends the whole body before it reads would otherwise find a closed connection;
    a client that reads meanwhile gets the answer at once.
    """

    async def held_open(message: Message) -> None:
        is_body = message["type"] == "http.response.body"
        await send({**message, "more_body": True} if is_body else message)

    await response(scope, incoming, held_open)
    read = 0
    while incoming.more and read <= DRAINED_BYTES_MAX:
        read += len((await incoming()).get("body", b""))
    await send({"type": "http.response.body", "body": b"", "more_body": False})
