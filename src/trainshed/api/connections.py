"""Limits the number and the duration of connections.

A connection uses a file descriptor, and a process has a limited number.  Like sshd's MaxStartups,
the server drops the oldest connections without a valid token when there are too many of them.  So
a new caller is served even if many half-sent requests are open.  The server drops only connections
that wait for their client, never one that waits for an answer.  One sweep checks all connections,
instead of a timer for each.
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

#: The most descriptors that are counted: connections get half of them.
DESCRIPTORS_MAX: Final = 8192
#: Addresses of one IPv6 network of this prefix length count as one: a client often has them all.
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
    total = min(descriptors, DESCRIPTORS_MAX) // 2
    return ConnectionLimits(connections=total, unauthenticated=total // 2, per_address=total // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Time limits of clients, in seconds."""

    head_s: float = 10.0
    """The most seconds from the connection, or a head's first byte, to the head's end, with TLS."""
    body_s: float = 60.0
    """The most seconds that the next piece of a body may take."""
    body_bytes_per_s: float = 500.0
    """The minimum rate of a body (as Apache's mod_reqtimeout)."""
    keep_alive_s: float = 95.0
    """The most seconds between requests of a caller with a token; other callers have ``head_s``.

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

    ``cut`` ends the connection at once; ``late`` is called when its client took too long;
    ``is_paused`` returns whether the server has paused reading.
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

    def __init__(self, connections: "Connections", address: str, due: float) -> None:
        """Begin without a valid token; the first head must arrive before ``due`` (seconds)."""
        self._all = connections
        self.address = address
        self.authenticated = False
        self.peer: object | None = None
        """The process at the other end, where the listener identifies it (``api.gateway``)."""
        self.waits = ConnectionWait.HEAD
        self.due = due
        self.drop_callbacks()

    def drop_callbacks(self) -> None:
        """Replace the callbacks, so that their owner is freed without the garbage collector."""
        self.cut: Callable[[], object] = _nothing
        self.late: Callable[[], object] = _nothing
        self.is_paused: Callable[[], bool] = bool

    def recognise(self, *, authenticated: bool) -> None:
        """Note whether the last request had a valid token."""
        self._all.recognise(self, authenticated=authenticated)

    @property
    def may_be_dropped(self) -> bool:
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
        """Add a connection; drop an old one if there are too many.  None: none may be dropped."""
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
            self._remove_unknown(connection)
        else:
            self._unknown.setdefault(connection.address, {})[connection] = None
            self._unknown_count += 1

    def forget(self, connection: Connection) -> None:
        """Remove an ended connection; safe to repeat."""
        connection.drop_callbacks()
        if self._all.pop(connection, self) is None and not connection.authenticated:
            self._remove_unknown(connection)

    def sweep(self) -> None:
        """End connections whose clients took too long."""
        now = self.clock()
        for connection in [connection for connection in self if connection.due < now]:
            if connection.is_paused():
                connection.due = now + self.times.body_s
                continue
            self.report_closed(connection, self._explain_timeout(connection.waits))
            connection.due = math.inf
            connection.late()
        self._log.flush()

    def report_closed(self, connection: Connection, why: str) -> None:
        """Log, now or later, that a connection was closed; ``why`` is one of a few fixed texts."""
        self._log.warning("closed", why, connection.address)

    def make_room(self, why: str) -> bool:
        """Drop the oldest connection that may be dropped; return whether there was one."""
        return self._drop(self._list_of_busiest_address(), why) or self._drop(self._all, why)

    def _has_room(self, address: str) -> bool:
        limits, same_address = self.limits, self._unknown.get(address, {})
        if len(same_address) >= limits.per_address:
            why = f"{limits.per_address} connections of one address have shown no valid token"
            return self._drop(same_address, why)
        if self._unknown_count >= limits.unauthenticated:
            why = f"{limits.unauthenticated} connections have shown no valid token"
            return self._drop(self._list_of_busiest_address(), why)
        if len(self._all) >= limits.connections:
            return self.make_room(f"the limit of {limits.connections} open connections is reached")
        return True

    def _list_of_busiest_address(self) -> Iterable[Connection]:
        """Return connections without a token of the address that has the most of them."""
        return max(self._unknown.values(), key=len, default={})

    def _drop(self, candidates: Iterable[Connection], why: str) -> bool:
        connection = next((candidate for candidate in candidates if candidate.may_be_dropped), None)
        if connection is None:
            self._log.warning("refused", why)
            return False
        cut = connection.cut
        self.forget(connection)
        self.report_closed(connection, why)
        cut()
        return True

    def _explain_timeout(self, waits: ConnectionWait) -> str:
        if waits is ConnectionWait.BODY:
            return (
                f"a body arrived more slowly than {self.times.body_bytes_per_s:g} bytes per second"
            )
        return f"no complete request head arrived within {self.times.head_s:g} s"

    def _remove_unknown(self, connection: Connection) -> None:
        same_address = self._unknown[connection.address]
        del same_address[connection]
        if not same_address:
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
