"""Peeks at accepted sockets, before a protocol is chosen."""

import asyncio
import re
import socket
from typing import Final

from trainshed.api.gateway.destinations import parse_target

_REQUEST_LINE: Final = re.compile(rb"CONNECT ([!-~]+) HTTP/1\.[01]")
_HEAD_BYTES_MAX: Final = 16 << 10


async def _readable(loop: asyncio.AbstractEventLoop, accepted: socket.socket) -> None:
    readable: asyncio.Future[None] = loop.create_future()

    def resolve() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(accepted.fileno(), resolve)
    try:
        await readable
    finally:
        loop.remove_reader(accepted.fileno())


async def _peek(loop: asyncio.AbstractEventLoop, accepted: socket.socket, bytes_max: int) -> bytes:
    """Return the first bytes without consuming them.  Raises ConnectionResetError at the end."""
    while True:
        try:
            chunk = accepted.recv(bytes_max, socket.MSG_PEEK)
        except BlockingIOError:
            await _readable(loop, accepted)
            continue
        if not chunk:
            raise ConnectionResetError("the client has disconnected")
        return chunk


async def first_byte(loop: asyncio.AbstractEventLoop, accepted: socket.socket) -> int:
    """Return the first byte without consuming it.  Raises OSError."""
    return (await _peek(loop, accepted, 1))[0]


async def read_head(loop: asyncio.AbstractEventLoop, accepted: socket.socket) -> bytes:
    """Read an HTTP head, and no byte after it.  Raises OSError."""
    head = b""
    while len(head) < _HEAD_BYTES_MAX:
        chunk = await _peek(loop, accepted, _HEAD_BYTES_MAX)
        end = (head + chunk).find(b"\r\n\r\n")
        head += accepted.recv(len(chunk) if end < 0 else end + 4 - len(head))
        if end >= 0:
            return head
    raise ConnectionAbortedError(f"the HTTP head has more than {_HEAD_BYTES_MAX} bytes")


def connect_target(head: bytes) -> tuple[str, int] | None:
    """Return the host and the port of a CONNECT; None if it is malformed.

    A head with two Host headers is malformed: of two, programs may use the first or the last.
    """
    line, *headers = head.split(b"\r\n")
    match = _REQUEST_LINE.fullmatch(line)
    hosts = sum(header[:5].lower() == b"host:" for header in headers)
    return parse_target(match[1].decode()) if match and hosts <= 1 else None
