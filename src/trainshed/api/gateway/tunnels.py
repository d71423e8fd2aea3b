"""Tunnels to hosts that are not answered for here: bytes are passed on, unread.

A job reaches through one what it could reach without us, by the machine's proxy where it has one.
The variables of a proxy cannot say which hosts are ours, so whatever else comes has to go on.
"""

import asyncio
import base64
import ipaddress
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from trainshed.api.gateway.sockets import read_head
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

    def __init__(
        self,
        proxies: Mapping[str, str] = MappingProxyType({}),
        *,
        most: int = TUNNELS_MAX,
        idle_s: float = IDLE_S,
    ) -> None:
        """``proxies``: variables such as https_proxy and no_proxy, as jobs would have them."""
        self._proxies = proxies
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
                far = await self._reached(loop, client, host, port)
        except TimeoutError:
            return f"{host} did not answer within {CONNECT_S:g} s"
        except OSError as error:
            return f"{host} cannot be reached: {error.strerror or error}"
        with far:
            await loop.sock_sendall(client, _OK)
            await _Tunnel(client, far, self._idle_s).pass_on()
        return ""

    async def _reached(
        self, loop: asyncio.AbstractEventLoop, client: socket.socket, host: str, port: int
    ) -> socket.socket:
        """Raises OSError."""
        proxy = proxy_for(host, self._proxies)
        if proxy is None:
            return await _connected(loop, host, port, is_own=_is_of_this_machine(client))
        far = await _connected(loop, proxy.host, proxy.port, is_own=True)
        try:
            await _ask(loop, far, proxy, f"{host}:{port}")
        except BaseException:
            far.close()
            raise
        return far


class Proxy(NamedTuple):
    """Through which the machine reaches others."""

    host: str
    port: int
    credentials: str
    """NAME:PASSWORD, or empty."""


def proxy_for(host: str, proxies: Mapping[str, str]) -> Proxy | None:
    """The proxy that variables name for a host; None: it is reached directly."""
    named = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
    url = next(filter(None, (proxies.get(name) for name in named)), "")
    without = proxies.get("no_proxy") or proxies.get("NO_PROXY") or ""
    if not url or _is_named(host, without):
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        return None
    name, password = unquote(parts.username or ""), unquote(parts.password or "")
    return Proxy(parts.hostname, parts.port or 80, f"{name}:{password}" if name else "")


def authorization(proxy: Proxy) -> Sequence[tuple[str, str]]:
    """The headers by which a proxy knows us; none where it asks for none."""
    if not proxy.credentials:
        return ()
    shown = base64.b64encode(proxy.credentials.encode()).decode()
    return (("Proxy-Authorization", f"Basic {shown}"),)


def _is_named(host: str, names: str) -> bool:
    """Whether a list such as ``localhost,.inner`` has a host, or what it is below."""
    for name in (each.strip().lower().lstrip(".") for each in names.split(",")):
        if name in {"*", host} or (name and host.endswith(f".{name}")):
            return True
    return False


async def _ask(
    loop: asyncio.AbstractEventLoop, far: socket.socket, proxy: Proxy, authority: str
) -> None:
    """Have a proxy connect us.  Raises OSError."""
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    lines += [f"{name}: {text}" for name, text in authorization(proxy)]
    await loop.sock_sendall(far, "\r\n".join([*lines, "", ""]).encode())
    words = (await read_head(loop, far)).split(b" ", 2)
    if words[1:2] != [b"200"]:
        status = words[1][:3].decode("ascii", "replace") if words[1:] else "nothing"
        raise OSError(f"the proxy {proxy.host} answers with {status}")


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
