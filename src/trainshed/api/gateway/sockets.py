"""Sockets that are looked at before it is known who is to have them."""

import asyncio
import re
import socket
from typing import Final

from trainshed.api.gateway.destinations import parse_target

_REQUEST_LINE: Final = re.compile(rb"CONNECT ([!-~]+) HTTP/1\.[01]")
_HEAD_BYTES_MAX: Final = 16 << 10


async def _readable(loop: asyncio.AbstractEventLoop, accepted: socket.socket) -> None:
    come: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not come.done():
            come.set_result(None)

    loop.add_reader(accepted.fileno(), tell)
    try:
        await come
    finally:
        loop.remove_reader(accepted.fileno())


async def _peek(loop: asyncio.AbstractEventLoop, accepted: socket.socket, most: int) -> bytes:
    """What has come and stays there.  Raises ConnectionResetError where nothing will."""
    while True:
        try:
            chunk = accepted.recv(most, socket.MSG_PEEK)
        except BlockingIOError:
            await _readable(loop, accepted)
            continue
        if not chunk:
            raise ConnectionResetError("the client has gone")
        return chunk


async def first_byte(loop: asyncio.AbstractEventLoop, accepted: socket.socket) -> int:
    """What somebody begins with; it stays where it is.  Raises OSError."""
    return (await _peek(loop, accepted, 1))[0]


async def read_head(loop: asyncio.AbstractEventLoop, accepted: socket.socket) -> bytes:
    """A head of HTTP, and no byte more: what follows is for somebody else.  Raises OSError."""
    head = b""
    while len(head) < _HEAD_BYTES_MAX:
        chunk = await _peek(loop, accepted, _HEAD_BYTES_MAX)
        end = (head + chunk).find(b"\r\n\r\n")
        head += accepted.recv(len(chunk) if end < 0 else end + 4 - len(head))
        if end >= 0:
            return head
    raise ConnectionAbortedError("a head without an end")


def connect_target(head: bytes) -> tuple[str, int] | None:
    """Return the host and the port that a CONNECT names; None where it names none.

    A head with two Hosts is refused, as the API refuses it: two readers may take different ones.
    """
    line, *headers = head.split(b"\r\n")
    match = _REQUEST_LINE.fullmatch(line)
    hosts = sum(header[:5].lower() == b"host:" for header in headers)
    return parse_target(match[1].decode()) if match and hosts <= 1 else None
