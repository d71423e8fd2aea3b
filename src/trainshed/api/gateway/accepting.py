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

#: Returns the attempt at the other end of a connection, given both addresses (theirs, ours).  None:
#: it is not a process of a living attempt.
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
    "Permission denied: this address serves the programs of running jobs, each for its own job, "
    "and the caller is not one of them"
)


class NotNow(enum.Enum):
    """The caller cannot be identified now: the database is unavailable."""

    NOT_NOW = "NOT_NOW"


NOT_NOW: Final = NotNow.NOT_NOW

Ts = TypeVarTuple("Ts")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """The functions and limits that decide about a connection."""

    peer_at: PeerAt
    find: FindAttempt
    tls: Callable[[], ssl.SSLContext]
    ends_here: Callable[[str], bool]
    """Returns whether the gateway ends a host's TLS; other hosts are reached through a tunnel."""
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
        self._everyone = connections
        self._searches = asyncio.Semaphore(_SEARCHES_MAX)
        super().__init__(loop, listener, make, connections, None)

    async def opened(self, accepted: socket.socket, held: Connection) -> None:
        """Identify the caller and the protocol.  Raises OSError, also for a slow caller."""
        accepted.setblocking(False)
        async with asyncio.timeout(self._everyone.times.head_s):
            first = await first_byte(self._loop, accepted)
            held.peer = await self._peer(accepted)
            if first == _CONNECT:
                head = await read_head(self._loop, accepted)
        if self._has_too_many(held):
            self._everyone.report_closed(held, "its attempt has reached its limit")
            raise ConnectionAbortedError
        if first == _CONNECT:
            await self._connect(accepted, held, head)
        else:
            await self.hand_over(accepted, held, self._entrance.tls if first == _TLS else None)

    def share_of(self, address: tuple[str, int]) -> str:
        """Return one share for a job, whatever its addresses are in its own network."""
        return super().share_of(address) if self._key is None else f"attempt {self._key}"

    async def _peer(self, accepted: socket.socket) -> "LivingAttempt | NotNow | None":
        """Identify the caller; return at once for a cut connection, whose search ends by itself."""
        if self._key is not None:
            return await self._search(self._entrance.find, self._key)
        theirs, ours = accepted.getpeername()[:2], accepted.getsockname()[:2]
        await self._searches.acquire()
        search = self._loop.create_task(self._search(self._entrance.peer_at, theirs, ours))
        search.add_done_callback(lambda _: self._searches.release())
        return await asyncio.shield(search)

    async def _search(
        self, find: Callable[[*Ts], LivingAttempt | None], *args: *Ts
    ) -> "LivingAttempt | NotNow | None":
        try:
            return await THREADS.run(find, *args)
        except Exception as error:  # noqa: BLE001  # the caller's next request is refused
            _log.warning("cannot identify the process behind a connection: %s", error)
            return NOT_NOW

    def _has_too_many(self, held: Connection) -> bool:
        peer = held.peer
        if not isinstance(peer, LivingAttempt):
            return False
        held.recognise(authenticated=True)
        peers = [other.peer for other in self._everyone if isinstance(other.peer, LivingAttempt)]
        own = sum(other.key == peer.key for other in peers)
        is_over = is_over_share(own, len(peers), self._entrance.connections_max)
        return is_over or own > self._entrance.attempt_connections_max

    async def _connect(self, accepted: socket.socket, held: Connection, head: bytes) -> None:
        target = connect_target(head)
        if target is None:
            await self._refuse(accepted, held, 400, CONNECT_FORM)
        elif held.peer is None:
            await self._refuse(accepted, held, 403, STRANGER)
        elif held.peer is NOT_NOW:
            await self._refuse(accepted, held, 503, AWAY)
        elif target[1] == _HTTPS and self._entrance.ends_here(target[0]):
            await self._loop.sock_sendall(accepted, _OK)
            await self.hand_over(accepted, held, self._entrance.tls)
        else:
            held.waits = ConnectionWait.ANSWER
            held.due = float("inf")
            attempt = cast("LivingAttempt", held.peer).key
            is_inside = self._key is not None
            refused = await self._entrance.tunnels.run(
                accepted, *target, attempt, is_inside=is_inside
            )
            if refused:
                await self._refuse(accepted, held, *refused)
            else:
                self._end(accepted, held)

    async def _refuse(
        self, accepted: socket.socket, held: Connection, status: int, why: str
    ) -> None:
        text = f"{why}\n".encode()
        head = f"HTTP/1.1 {status} {why[:200]}\r\nContent-Type: text/plain\r\nConnection: close\r\n"
        body = f"Content-Length: {len(text)}\r\n\r\n".encode() + text
        async with asyncio.timeout(self._everyone.times.head_s):
            await self._loop.sock_sendall(accepted, head.encode("ascii", "replace") + body)
        self._end(accepted, held)

    def _end(self, accepted: socket.socket, held: Connection) -> None:
        self._everyone.forget(held)
        accepted.close()


def authority_of(scope: Any) -> str:
    """Return the host that a request is for, without its port."""
    host = next((value for name, value in scope["headers"] if name == b"host"), b"")
    name: str = host.decode("latin-1").lower()
    return name.partition("]")[0].strip("[") if name.startswith("[") else name.partition(":")[0]
