"""Limits the number and the duration of connections.

A connection uses a descriptor, and a process has few.  Like sshd's MaxStartups, the server drops
the oldest connections without a valid token when there are too many of them, so a new caller is
served however many half-sent requests are open.  It drops only connections that wait for their
client, never one that waits for an answer.  One sweep checks all connections, instead of a timer
for each.
"""

import enum
import ipaddress
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from trainshed.api.rare_log import RareLog

#: The most descriptors of which a share is used for connections.
DESCRIPTORS_MAX: Final = 8192
#: Prefix length in IPv6 that counts as one address: one client has a whole network.
_IPV6_PREFIX: Final = 64
#: The key of the connection in the state of a request's scope.
CONNECTION: Final = "connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The most connections at once.

    The other descriptors are for the database, files of uploads, logs and jobs that start.
    """

    connections: int
    unauthenticated: int
    """The limit of connections without a valid token."""
    per_address: int
    """The limit of connections without a valid token from one address; in IPv6 from one /64."""


def limits_of(descriptors: int) -> ConnectionLimits:
    """Return limits: half of the descriptors, and half of these for callers without a token."""
    most = min(descriptors, DESCRIPTORS_MAX) // 2
    return ConnectionLimits(connections=most, unauthenticated=most // 2, per_address=most // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Time limits of clients, in seconds."""

    head_s: float = 10.0
    """From the connection, or the first byte of a head, to the head's end; includes TLS."""
    body_s: float = 60.0
    """The most seconds that the next piece of a body may take."""
    body_bytes_per_s: float = 500.0
    """The minimum rate of a body (as Apache's mod_reqtimeout)."""
    keep_alive_s: float = 95.0
    """How long an idle connection of a caller with a token stays open; others have ``head_s``.

    The Vertex SDK polls every 5 s and gcloud every 60 s.  Closing the connection at that moment
    would lose the call, and the SDK does not retry.
    """


class ConnectionWait(enum.Enum):
    """The part of a request that a connection waits for; in ``ANSWER`` the server must act."""

    HEAD = "head"
    BODY = "body"
    NEXT = "next"
    ANSWER = "answer"


class Connection:
    """The shared state of one connection; its protocol holds the rest.

    ``cut`` ends it at once; ``late`` is called when its client took too long; ``is_paused`` tells
    whether the server has paused reading.
    """

    __slots__ = (
        "_all",
        "address",
        "authenticated",
        "cut",
        "due",
        "is_paused",
        "late",
        "peer",
        "waits",
    )

    def __init__(self, everyone: "Connections", address: str, due: float) -> None:
        """Begin without a token; the first head must arrive until ``due``."""
        self._all = everyone
        self.address = address
        self.authenticated = False
        self.peer: object | None = None
        """The process at the other end, where the listener identifies it (``api.gateway``)."""
        self.waits = ConnectionWait.HEAD
        self.due = due
        self.let_go()

    def let_go(self) -> None:
        """Drop references to the owner, so that it is freed without the garbage collector."""
        self.cut: Callable[[], object] = _nothing
        self.late: Callable[[], object] = _nothing
        self.is_paused: Callable[[], bool] = bool

    def recognise(self, *, authenticated: bool) -> None:
        """Note whether the last request had a valid token."""
        self._all.recognise(self, authenticated=authenticated)

    @property
    def may_go(self) -> bool:
        """Return whether the server may drop the connection to make room."""
        if self.authenticated:
            return self.waits is ConnectionWait.NEXT
        return self.waits is not ConnectionWait.ANSWER


def _nothing() -> None:
    """Do nothing: the callbacks of a connection that is not open yet."""


class Connections:
    """All connections of a server.  For use on its event loop only: no locks."""

    def __init__(
        self,
        limits: ConnectionLimits,
        times: Times | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        self.times = times or Times()
        self.clock = clock
        self._log = RareLog(logging.getLogger(__name__), clock)
        self._all: dict[Connection, None] = {}
        self._unknown: dict[str, dict[Connection, None]] = {}
        self._unknown_count = 0

    def __iter__(self) -> Iterator[Connection]:
        """Iterate over the connections, the oldest first."""
        return iter(self._all)

    def admit(self, host: str) -> Connection | None:
        """Add a connection, perhaps dropping an old one; None where none may be dropped."""
        address = network_of(host)
        if not self._has_room(address):
            return None
        connection = Connection(self, address, self.clock() + self.times.head_s)
        self._all[connection] = None
        self._unknown.setdefault(address, {})[connection] = None
        self._unknown_count += 1
        return connection

    def recognise(self, connection: Connection, *, authenticated: bool) -> None:
        """Note whether the last request had a valid token."""
        if authenticated == connection.authenticated or connection not in self._all:
            return
        connection.authenticated = authenticated
        if authenticated:
            self._no_longer_unknown(connection)
        else:
            self._unknown.setdefault(connection.address, {})[connection] = None
            self._unknown_count += 1

    def forget(self, connection: Connection) -> None:
        """Remove an ended connection; safe to repeat."""
        connection.let_go()
        if self._all.pop(connection, self) is None and not connection.authenticated:
            self._no_longer_unknown(connection)

    def sweep(self) -> None:
        """End connections whose clients took too long."""
        now = self.clock()
        for connection in [connection for connection in self if connection.due < now]:
            if connection.is_paused():
                connection.due = now + self.times.body_s
                continue
            self.report_closed(connection, self._lateness(connection.waits))
            connection.due = math.inf
            connection.late()
        self._log.flush()

    def report_closed(self, connection: Connection, why: str) -> None:
        """Log, now or later, that a connection is ended; ``why`` is one of a few fixed texts."""
        self._log.warning("closed", why, connection.address)

    def make_room(self, why: str) -> bool:
        """Drop any connection that may be dropped; return whether there was one."""
        return self._drop(self._most(), why) or self._drop(self._all, why)

    def _has_room(self, address: str) -> bool:
        limits, ours = self.limits, self._unknown.get(address, {})
        if len(ours) >= limits.per_address:
            most = f"{limits.per_address} of one address have shown no valid token"
            return self._drop(ours, most)
        if self._unknown_count >= limits.unauthenticated:
            most = f"{limits.unauthenticated} have shown no valid token"
            return self._drop(self._most(), most)
        if len(self._all) >= limits.connections:
            return self.make_room(f"{limits.connections} are open, which is all there may be")
        return True

    def _most(self) -> Iterable[Connection]:
        """Return connections without a token of the address that has the most of them."""
        return max(self._unknown.values(), key=len, default={})

    def _drop(self, candidates: Iterable[Connection], why: str) -> bool:
        connection = next((candidate for candidate in candidates if candidate.may_go), None)
        if connection is None:
            self._log.warning("refused", why)
            return False
        cut = connection.cut
        self.forget(connection)
        self.report_closed(connection, why)
        cut()
        return True

    def _lateness(self, waits: ConnectionWait) -> str:
        if waits is ConnectionWait.BODY:
            return f"a body came more slowly than {self.times.body_bytes_per_s:g} bytes a second"
        return f"no whole head came within {self.times.head_s:g} s"

    def _no_longer_unknown(self, connection: Connection) -> None:
        ours = self._unknown[connection.address]
        del ours[connection]
        if not ours:
            del self._unknown[connection.address]
        self._unknown_count -= 1


def network_of(host: str) -> str:
    """Return what counts as one address: an IPv4 address, or an IPv6 network of 64 bits."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
