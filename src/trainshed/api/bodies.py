"""Bodies that are too long: nobody holds one in memory, and whoever sends one is still told so."""

from typing import Final

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from trainshed.api.documents import refuse_large
from trainshed.api.incoming import length_of, read_body

#: So much of a refused body is read; the rest is not worth anyone's time.
DRAINED_BYTES_MAX: Final = 64 << 20


class Incoming:
    """A request's body on its way; ``more`` says whether some of it may still come."""

    def __init__(self, receive: Receive) -> None:
        """Nothing has been received yet."""
        self._receive = receive
        self.more = True

    async def __call__(self) -> Message:
        """The next message."""
        message = await self._receive()
        self.more = message.get("more_body", False)
        return message


async def read_whole(
    scope: Scope, incoming: Incoming, bytes_max: int, *, begun: bytes = b""
) -> bytes:
    """The body, whose beginning may have been read.  Raises a Refusal (413) for a longer one."""
    if length_of(scope) > bytes_max:
        refuse_large(bytes_max)
    body = await read_body(incoming, begun, bytes_max)
    if len(body) > bytes_max:
        refuse_large(bytes_max)
    return body


def received_again(body: bytes, receive: Receive) -> Receive:
    """``receive`` for an application that wants to read the body itself."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again


async def answer_early(response: Response, scope: Scope, incoming: Incoming, send: Send) -> None:
    """Answer, then read what is left of the body.

    A client that sends all of it before it reads would find a closed connection in the place of
    the answer; one that reads meanwhile has it at once, and may go.
    """

    async def held_open(message: Message) -> None:
        is_body = message["type"] == "http.response.body"
        await send({**message, "more_body": True} if is_body else message)

    await response(scope, incoming, held_open)
    read = 0
    while incoming.more and read <= DRAINED_BYTES_MAX:
        read += len((await incoming()).get("body", b""))
    await send({"type": "http.response.body", "body": b"", "more_body": False})
