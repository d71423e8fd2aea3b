"""Identifies the caller of a connection and its protocol: plain HTTP, TLS, or CONNECT.

The first byte decides: a TLS handshake begins with 0x16, and of HTTP's methods only CONNECT begins
with a C.  The byte is peeked and stays in the socket for the protocol that follows.
"""

import asyncio
import enum
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVarTuple, cast

from trainshed.api.connections import Connection, Connections, ConnectionWait
from trainshed.api.gateway.shares import is_over_share
from trainshed.api.gateway.sockets import connect_target, first_byte, read_head
from trainshed.api.gateway.tunnels import Tunnels
from trainshed.api.http_server import Accepting
from trainshed.api.threads import THREADS
from trainshed.model.attempt import AttemptKey
from trainshed.service.gateway.attempts import FindAttempt, LivingAttempt

#: Returns the attempt whose process opened a connection, given the client's and the server's
#: address.  None: the client is not a process of a living attempt.
PeerAt = Callable[[tuple[str, int], tuple[str, int]], LivingAttempt | None]

#: Searches at once: unknown callers cause the longest ones, and must not load the machine.
_SEARCHES_MAX: Final = 2
_TLS: Final = 0x16
_CONNECT: Final = ord("C")
_HTTPS: Final = 443
_OK: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
CONNECT_FORM: Final = "CONNECT must name HOST:PORT, with one Host header at most"
AWAY: Final = "The server cannot identify the caller now; try again in a moment"
#: The refusal of a caller that is not a process of a living attempt.
STRANGER: Final = (
    "Permission denied: this address serves only programs of running jobs, and the caller is not "
    "a program of a running job"
)


class Unidentified(enum.Enum):
    """The caller cannot be identified now: the database is unavailable."""

    UNIDENTIFIED = "UNIDENTIFIED"


UNIDENTIFIED: Final = Unidentified.UNIDENTIFIED

Ts = TypeVarTuple("Ts")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """The functions and limits that decide how a connection is served."""

    peer_at: PeerAt
    find: FindAttempt
    tls: Callable[[], ssl.SSLContext]
    terminates_tls: Callable[[str], bool]
    """Returns whether the gateway itself answers as a host; other hosts are reached by a tunnel."""
    connections_max: int
    """The most connections of all attempts together."""
    attempt_connections_max: int
    """The most connections of one attempt; fewer while others use many (``shares``)."""
    tunnels: Tunnels


class GatewayAccepting(Accepting):
    """A listening socket of the gateway."""

    def __init__(  # noqa: PLR0913, PLR0917 - as its base
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        make: Callable[[Connection], asyncio.BaseProtocol],
        connections: Connections,
        entrance: Entrance,
        key: AttemptKey | None = None,
    ) -> None:
        """Begin to accept connections.

        ``key`` is the attempt in whose network the socket listens; None: for all attempts.
        """
        self._entrance = entrance
        self._key = key
        self._searches = asyncio.Semaphore(_SEARCHES_MAX)
        super().__init__(loop, listener, make, connections, None)

    async def opened(self, accepted: socket.socket, connection: Connection) -> None:
        """Identify the caller and the protocol.  Raises OSError if that fails or takes too long."""
        accepted.setblocking(False)
        async with asyncio.timeout(self._connections.times.head_s):
            first = await first_byte(self._loop, accepted)
            connection.peer = await self._peer(accepted)
            if first == _CONNECT:
                head = await read_head(self._loop, accepted)
        if self._has_too_many(connection):
            self._connections.report_closed(
                connection, "the attempt has reached its limit of connections"
            )
            raise ConnectionAbortedError
        if first == _CONNECT:
            await self._connect(accepted, connection, head)
        else:
            await self.hand_over(
                accepted, connection, self._entrance.tls if first == _TLS else None
            )

    def share_of(self, address: tuple[str, int]) -> str:
        """Return one name for all addresses in the job's own network: they count together."""
        return super().share_of(address) if self._key is None else f"attempt {self._key}"

    async def _peer(self, accepted: socket.socket) -> "LivingAttempt | Unidentified | None":
        """Identify the caller.  If the connection is cut, return at once; the search goes on."""
        if self._key is not None:
            return await self._search(self._entrance.find, self._key)
        client_address, server_address = accepted.getpeername()[:2], accepted.getsockname()[:2]
        await self._searches.acquire()
        search = self._loop.create_task(
            self._search(self._entrance.peer_at, client_address, server_address)
        )
        search.add_done_callback(lambda _: self._searches.release())
        return await asyncio.shield(search)

    async def _search(
        self, find: Callable[[*Ts], LivingAttempt | None], *args: *Ts
    ) -> "LivingAttempt | Unidentified | None":
        try:
            return await THREADS.run(find, *args)
        except Exception as error:  # noqa: BLE001  # the caller's next request is refused
            _log.warning("cannot identify the process behind a connection: %s", error)
            return UNIDENTIFIED

    def _has_too_many(self, connection: Connection) -> bool:
        peer = connection.peer
        if not isinstance(peer, LivingAttempt):
            return False
        connection.recognise(authenticated=True)
        peers = [other.peer for other in self._connections if isinstance(other.peer, LivingAttempt)]
        count = sum(other.key == peer.key for other in peers)
        is_over = is_over_share(count, len(peers), self._entrance.connections_max)
        return is_over or count > self._entrance.attempt_connections_max

    async def _connect(self, accepted: socket.socket, connection: Connection, head: bytes) -> None:
        target = connect_target(head)
        if target is None:
            await self._refuse(accepted, connection, 400, CONNECT_FORM)
        elif connection.peer is None:
            await self._refuse(accepted, connection, 403, STRANGER)
        elif connection.peer is UNIDENTIFIED:
            await self._refuse(accepted, connection, 503, AWAY)
        elif target[1] == _HTTPS and self._entrance.terminates_tls(target[0]):
            await self._loop.sock_sendall(accepted, _OK)
            await self.hand_over(accepted, connection, self._entrance.tls)
        else:
            connection.waits = ConnectionWait.ANSWER
            connection.due = float("inf")
            attempt = cast("LivingAttempt", connection.peer).key
            is_inside = self._key is not None
            refused = await self._entrance.tunnels.run(
                accepted, *target, attempt, is_inside=is_inside
            )
            if refused:
                await self._refuse(accepted, connection, *refused)
            else:
                self._end(accepted, connection)

    async def _refuse(
        self, accepted: socket.socket, connection: Connection, status: int, why: str
    ) -> None:
        text = f"{why}\n".encode()
        head = f"HTTP/1.1 {status} {why[:200]}\r\nContent-Type: text/plain\r\nConnection: close\r\n"
        body = f"Content-Length: {len(text)}\r\n\r\n".encode() + text
        async with asyncio.timeout(self._connections.times.head_s):
            await self._loop.sock_sendall(accepted, head.encode("ascii", "replace") + body)
        self._end(accepted, connection)

    def _end(self, accepted: socket.socket, connection: Connection) -> None:
        self._connections.forget(connection)
        accepted.close()


def authority_of(scope: Any) -> str:
    """Return the host that a request is for, without its port."""
    host = next((value for name, value in scope["headers"] if name == b"host"), b"")
    name: str = host.decode("latin-1").lower()
    return name.partition("]")[0].strip("[") if name.startswith("[") else name.partition(":")[0]
