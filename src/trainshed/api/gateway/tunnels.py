"""Tunnels to hosts that are not answered for here: bytes are passed on, unread.

A job reaches through one what it could reach without us.  The variables of a proxy cannot say
which hosts are ours, so whatever else is sent here has to go on.
"""

import asyncio
import ipaddress
import socket
import time
from contextlib import suppress
from typing import Final

from trainshed.api.guards import is_loopback

#: Tunnels at once, all jobs together; each has two descriptors.
TUNNELS_MAX: Final = 128
#: A tunnel through which nothing goes for so long is closed.
IDLE_S: Final = 600.0
CONNECT_S: Final = 5.0
_PIECE_BYTES: Final = 64 << 10
_OK: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Tunnels:
    """All of a gateway's."""

    def __init__(self, most: int = TUNNELS_MAX, idle_s: float = IDLE_S) -> None:
        """There is none."""
        self._most = most
        self._idle_s = idle_s
        self._count = 0

    async def run(self, client: socket.socket, host: str, port: int) -> str:
        """Connect a client with a host until one of them ends it; why not, if it cannot be.

        Whoever has a network of his own (a container) reaches public addresses only: those of this
        machine and of its neighbours are not his.
        """
        if self._count >= self._most:
            return f"{self._most} tunnels of jobs are open, which is all there may be"
        self._count += 1
        try:
            return await self._run(client, host, port)
        finally:
            self._count -= 1

    async def _run(self, client: socket.socket, host: str, port: int) -> str:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S):
                far = await _connected(loop, host, port, is_own=_is_of_this_machine(client))
        except TimeoutError:
            return f"{host} did not answer within {CONNECT_S:g} s"
        except OSError as error:
            return f"{host} cannot be reached: {error.strerror or error}"
        with far:
            await loop.sock_sendall(client, _OK)
            await _Tunnel(client, far, self._idle_s).pass_on()
        return ""


class _Tunnel:
    """Two sockets that are one."""

    def __init__(self, near: socket.socket, far: socket.socket, idle_s: float) -> None:
        self._ends = (near, far)
        self._idle_s = idle_s
        self._at = time.monotonic()

    async def pass_on(self) -> None:
        """Until both have ended, one is broken, or nothing has come for long."""
        near, far = self._ends
        ways = [asyncio.ensure_future(self._one_way(*way)) for way in ((near, far), (far, near))]
        try:
            with suppress(OSError):
                await asyncio.gather(*ways)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _one_way(self, come: socket.socket, go: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while piece := await self._next(loop, come):
            async with asyncio.timeout(self._idle_s):
                await loop.sock_sendall(go, piece)
        with suppress(OSError):
            go.shutdown(socket.SHUT_WR)

    async def _next(self, loop: asyncio.AbstractEventLoop, come: socket.socket) -> bytes:
        while True:
            left = self._at + self._idle_s - time.monotonic()
            if left <= 0:
                raise TimeoutError
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    piece = await loop.sock_recv(come, _PIECE_BYTES)
                self._at = time.monotonic()
                return piece


def _is_of_this_machine(client: socket.socket) -> bool:
    """Whether a client is in the machine's own network: it came by loopback."""
    return is_loopback(client.getsockname()[0])


async def _connected(
    loop: asyncio.AbstractEventLoop, host: str, port: int, *, is_own: bool
) -> socket.socket:
    """Raises OSError."""
    failed: OSError = OSError(f"{host} has no address")
    for family, kind, proto, _, address in await loop.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        if not is_own and not ipaddress.ip_address(address[0]).is_global:
            failed = OSError("it has no public address, and the container has a network of its own")
            continue
        far = socket.socket(family, kind, proto)
        far.setblocking(False)
        try:
            await loop.sock_connect(far, address)
        except OSError as error:
            far.close()
            failed = error
        except BaseException:
            far.close()
            raise
        else:
            return far
    raise failed
