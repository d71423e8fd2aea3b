"""Tunnels to hosts that the gateway does not answer for: it passes bytes on unread.

Through a tunnel, a job reaches the hosts that it could reach without the gateway, by the machine's
proxy if there is one.  Proxy variables cannot name only Google's hosts, so the gateway also gets
requests to other hosts.  The socket belongs to the user of the job, so that the machine's rules for
that user apply.
"""

import asyncio
import base64
import ipaddress
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from trainshed.api.gateway.destinations import (
    THIS_MACHINE,
    RefuseAddress,
    is_own_name,
    refuse_address,
)
from trainshed.api.gateway.shares import is_over_share
from trainshed.api.gateway.socket_users import socket_as, user_of
from trainshed.api.gateway.sockets import read_head
from trainshed.api.guards import is_loopback
from trainshed.api.threads import THREADS

#: An entry of getaddrinfo.
Resolved = tuple[Any, Any, int, str, tuple[Any, ...]]

#: Tunnels at once, all jobs together; each has two descriptors.  One job gets at most half.
TUNNELS_MAX: Final = 128
#: Seconds without bytes after which a tunnel is closed.
IDLE_S: Final = 600.0
CONNECT_S: Final = 5.0
_PIECE_BYTES: Final = 64 << 10
_OK: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"


#: Seconds to look up the address of a host that the proxy resolves.
LOOK_UP_S: Final = 1.0

UserOf = Callable[[socket.socket], int | None]


class NoTunnel(NamedTuple):
    """The HTTP status and the reason for which a tunnel was not opened."""

    status: int
    why: str


class Tunnels:
    """All tunnels of a gateway."""

    def __init__(
        self,
        proxies: Mapping[str, str] = MappingProxyType({}),
        *,
        most: int = TUNNELS_MAX,
        idle_s: float = IDLE_S,
        refuse: RefuseAddress | None = refuse_address,
        user_of: UserOf | None = user_of,
    ) -> None:
        """``proxies``: variables such as https_proxy and no_proxy.

        ``refuse`` judges addresses; None allows all.  ``user_of`` returns the owner of a client's
        socket, which becomes the owner of the tunnel's; None: this process's user.
        """
        self._proxies = proxies
        self._most = most
        self._idle_s = idle_s
        self._refuse = refuse
        self._user_of = user_of
        self._counts: Counter[object] = Counter()

    async def run(
        self,
        client: socket.socket,
        host: str,
        port: int,
        attempt: object = None,
        *,
        is_inside: bool = False,
    ) -> NoTunnel | None:
        """Connect a client of an attempt with a host until one of them closes.

        ``attempt`` None: all clients share one limit, that of all tunnels.

        A client in a network of its own (a container, or a job if ``is_inside``) gets tunnels to
        public addresses only: it reaches other addresses directly, by the rules of that network.
        """
        self._counts[attempt] += 1
        try:
            if self._is_full(attempt):
                return NoTunnel(503, self._explain_full(attempt))
            is_own = not is_inside and _is_of_this_machine(client)
            return await self._run(client, host, port, is_own=is_own)
        finally:
            self._counts[attempt] -= 1
            self._counts += Counter()  # drops zero counts

    def _is_full(self, attempt: object) -> bool:
        total = self._counts.total()
        if attempt is None:
            return total > self._most
        return is_over_share(self._counts[attempt], total, self._most)

    def _explain_full(self, attempt: object) -> str:
        count, total = self._counts[attempt] - 1, self._counts.total() - 1
        return (
            f"the job has {count} of the {total} open tunnels, of at most {self._most}; "
            "close one, or add the host to no_proxy"
        )

    async def _run(
        self, client: socket.socket, host: str, port: int, *, is_own: bool
    ) -> NoTunnel | None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S):
                user = (
                    await THREADS.run(self._user_of, client) if is_own and self._user_of else None
                )
                upstream = await self._reach(loop, (host, port), user, is_own=is_own)
        except TimeoutError:
            return NoTunnel(502, f"{host} did not answer within {CONNECT_S:g} s")
        except PermissionError as error:
            return NoTunnel(403, f"{host} {error}")
        except OSError as error:
            return NoTunnel(502, f"{host} cannot be reached: {error.strerror or error}")
        with upstream:
            await loop.sock_sendall(client, _OK)
            await _Tunnel(client, upstream, self._idle_s).pass_on()
        return None

    async def _reach(
        self,
        loop: asyncio.AbstractEventLoop,
        target: tuple[str, int],
        user: int | None,
        *,
        is_own: bool,
    ) -> socket.socket:
        """Connect to a host or its proxy.  Raises OSError; PermissionError if not allowed."""
        host, port = target
        if self._refuse is not None and is_own_name(host):
            raise PermissionError(THIS_MACHINE)
        proxy = proxy_for(host, self._proxies)
        if proxy is None:
            resolved = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return await _connect(
                loop, self._select_allowed(resolved, only_public=not is_own), user
            )
        await self._check_for_proxy(loop, host, port)
        resolved = await loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM)
        upstream = await _connect(loop, resolved, user)
        try:
            await _request_connection(
                loop, upstream, proxy, f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            )
        except BaseException:
            upstream.close()
            raise
        return upstream

    def _select_allowed(
        self, resolved: Sequence[Resolved], *, only_public: bool = False
    ) -> Sequence[Resolved]:
        """Return the addresses that a tunnel may lead to.  PermissionError: there is none."""
        if self._refuse is None:
            return resolved
        refused = ""
        allowed = []
        for row in resolved:
            address = ipaddress.ip_address(str(row[4][0]).partition("%")[0])
            if why := self._refuse(address, only_public):
                refused = why
            else:
                allowed.append(row)
        if resolved and not allowed:
            raise PermissionError(f"{refused}; to connect without a tunnel, add it to no_proxy")
        return allowed

    async def _check_for_proxy(self, loop: asyncio.AbstractEventLoop, host: str, port: int) -> None:
        """Raise PermissionError if the proxy must not connect to a host.

        The proxy resolves the name, perhaps by a name server that this machine does not have.
        """
        if self._refuse is None:
            return
        resolved: Sequence[Resolved] = ()
        with suppress(OSError):  # also a name that takes too long
            async with asyncio.timeout(LOOK_UP_S):
                resolved = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        self._select_allowed(resolved)


class UpstreamProxy(NamedTuple):
    """The proxy through which the machine reaches other hosts."""

    host: str
    port: int
    credentials: str
    """NAME:PASSWORD, or empty."""


def proxy_for(host: str, proxies: Mapping[str, str]) -> UpstreamProxy | None:
    """Return the proxy that the variables name for a host; None: direct connection."""
    named = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
    url = next(filter(None, (proxies.get(name) for name in named)), "")
    no_proxy = proxies.get("no_proxy") or proxies.get("NO_PROXY") or ""
    if not url or _is_named(host, no_proxy):
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        return None
    name, password = unquote(parts.username or ""), unquote(parts.password or "")
    return UpstreamProxy(parts.hostname, parts.port or 80, f"{name}:{password}" if name else "")


def authorization(proxy: UpstreamProxy) -> Sequence[tuple[str, str]]:
    """Return the header with the proxy's credentials; empty without credentials."""
    if not proxy.credentials:
        return ()
    encoded = base64.b64encode(proxy.credentials.encode()).decode()
    return (("Proxy-Authorization", f"Basic {encoded}"),)


def _is_named(host: str, names: str) -> bool:
    """Return whether a list such as ``localhost,.inner`` has a host or a parent domain."""
    for name in (part.strip().lower().lstrip(".") for part in names.split(",")):
        if name in {"*", host} or (name and host.endswith(f".{name}")):
            return True
    return False


async def _request_connection(
    loop: asyncio.AbstractEventLoop, upstream: socket.socket, proxy: UpstreamProxy, authority: str
) -> None:
    """Request a connection from a proxy.  Raises OSError."""
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    lines += [f"{name}: {text}" for name, text in authorization(proxy)]
    await loop.sock_sendall(upstream, "\r\n".join([*lines, "", ""]).encode())
    words = (await read_head(loop, upstream)).split(b" ", 2)
    if words[1:2] != [b"200"]:
        status = words[1][:3].decode("ascii", "replace") if words[1:] else "nothing"
        raise OSError(f"the proxy {proxy.host} answered {status}")


class _Tunnel:
    """A client's socket and the socket of its destination."""

    def __init__(self, client: socket.socket, upstream: socket.socket, idle_s: float) -> None:
        self._ends = (client, upstream)
        self._idle_s = idle_s
        self._last_bytes_at = time.monotonic()

    async def pass_on(self) -> None:
        """Pass bytes on until both sides close, one fails, or the tunnel is idle."""
        client, upstream = self._ends
        directions = [
            asyncio.ensure_future(self._copy(*direction))
            for direction in ((client, upstream), (upstream, client))
        ]
        try:
            with suppress(OSError):
                await asyncio.gather(*directions)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)

    async def _copy(self, source: socket.socket, target_socket: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while piece := await self._next(loop, source):
            async with asyncio.timeout(self._idle_s):
                await loop.sock_sendall(target_socket, piece)
        with suppress(OSError):
            target_socket.shutdown(socket.SHUT_WR)

    async def _next(self, loop: asyncio.AbstractEventLoop, source: socket.socket) -> bytes:
        while True:
            seconds_left = self._last_bytes_at + self._idle_s - time.monotonic()
            if seconds_left <= 0:
                raise TimeoutError
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds_left):
                    piece = await loop.sock_recv(source, _PIECE_BYTES)
                self._last_bytes_at = time.monotonic()
                return piece


def _is_of_this_machine(client: socket.socket) -> bool:
    """Return whether a client is in the machine's own network (loopback)."""
    return is_loopback(client.getsockname()[0])


async def _connect(
    loop: asyncio.AbstractEventLoop, resolved: Sequence[Resolved], user: int | None
) -> socket.socket:
    """Connect to the first address that answers, with a socket of a user.  Raises OSError."""
    failed = OSError("the name has no address")
    for family, kind, proto, _, address in resolved:
        upstream = socket_as(user, family, kind, proto)
        upstream.setblocking(False)
        try:
            await loop.sock_connect(upstream, address)
        except OSError as error:
            upstream.close()
            failed = error
        except BaseException:
            upstream.close()
            raise
        else:
            return upstream
    if isinstance(failed, PermissionError):  # refused by the machine's rules
        raise OSError(failed.errno, failed.strerror)
    raise failed
