"""Who is connected, for how long, and who makes room for whom.

A connection costs a descriptor, and a process has few.  As sshd's MaxStartups does, whoever has
shown no valid token is dropped when too many of them wait, the oldest first: a new caller gets his
turn however many half requests are held open.  Only who waits for its client is dropped, never who
is being answered.  One clock and one sweep for all, instead of a timer for each connection.
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

#: Of a process that may open more, connections take no larger part than of so many.
DESCRIPTORS_MAX: Final = 8192
#: One caller has a whole network of this size in IPv6.
_IPV6_PREFIX: Final = 64
#: What the state of a request's scope calls its connection.
CONNECTION: Final = "connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How many connections there may be at once.

    The other descriptors are kept for the database, files of uploads, logs and jobs that start.
    """

    connections: int
    unauthenticated: int
    """Of those that have shown no valid token."""
    per_address: int
    """The same, from one address; in IPv6 from one /64."""


def limits_of(descriptors: int) -> ConnectionLimits:
    """Half of a process's descriptors are for connections, half of these for unknown callers."""
    most = min(descriptors, DESCRIPTORS_MAX) // 2
    return ConnectionLimits(connections=most, unauthenticated=most // 2, per_address=most // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long a client may take, in seconds."""

    head_s: float = 10.0
    """From the first byte of a head, or from the connection, to its end; TLS's handshake too."""
    body_s: float = 60.0
    """How long a body may stand still; then it must have kept its rate."""
    body_bytes_per_s: float = 500.0
    """The least rate of a body (Apache's mod_reqtimeout has the same)."""
    keep_alive_s: float = 95.0
    """How long a known caller's connection is kept for its next call; others have ``head_s``.

    The Vertex SDK asks every 5 s and gcloud every 60: were it closed just then, the call would be
    lost on its way, and the SDK tries none again.
    """


class ConnectionWait(enum.Enum):
    """What a connection waits for: ``ANSWER`` is the server's to give, the others the client's."""

    HEAD = "head"
    BODY = "body"
    NEXT = "next"
    ANSWER = "answer"


class Connection:
    """One of them, as far as its owner, the protocol, does not keep it for itself.

    ``cut`` ends it at once; ``late`` is called when its client took too long; ``is_paused`` says
    whether it is the server that does not read on.
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
        """It has shown no token, and its first head is waited for until ``due``."""
        self._all = everyone
        self.address = address
        self.authenticated = False
        self.peer: object | None = None
        """Who has it open, where its listener finds that out (``api.gateway``)."""
        self.waits = ConnectionWait.HEAD
        self.due = due
        self.let_go()

    def let_go(self) -> None:
        """Hold nothing of its owner: what has ended is then freed at once, not by a search."""
        self.cut: Callable[[], object] = _nothing
        self.late: Callable[[], object] = _nothing
        self.is_paused: Callable[[], bool] = bool

    def recognise(self, *, authenticated: bool) -> None:
        """Whether its last request came with a valid token."""
        self._all.recognise(self, authenticated=authenticated)

    @property
    def may_go(self) -> bool:
        """Whether it may be dropped to make room for another."""
        if self.authenticated:
            return self.waits is ConnectionWait.NEXT
        return self.waits is not ConnectionWait.ANSWER


def _nothing() -> None:
    """Nothing is open yet."""


class Connections:
    """All of a server's.  For its loop alone: no locks."""

    def __init__(
        self,
        limits: ConnectionLimits,
        times: Times | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nobody is connected."""
        self.limits = limits
        self.times = times or Times()
        self.clock = clock
        self._log = RareLog(logging.getLogger(__name__), clock)
        self._all: dict[Connection, None] = {}
        self._unknown: dict[str, dict[Connection, None]] = {}
        self._unknown_count = 0

    def __iter__(self) -> Iterator[Connection]:
        """Those that there are, the oldest first."""
        return iter(self._all)

    def admit(self, host: str) -> Connection | None:
        """A new one, for which an old one may have to go; None where none can."""
        address = network_of(host)
        if not self._has_room(address):
            return None
        connection = Connection(self, address, self.clock() + self.times.head_s)
        self._all[connection] = None
        self._unknown.setdefault(address, {})[connection] = None
        self._unknown_count += 1
        return connection

    def recognise(self, connection: Connection, *, authenticated: bool) -> None:
        """Whether its last request came with a valid token."""
        if authenticated == connection.authenticated or connection not in self._all:
            return
        connection.authenticated = authenticated
        if authenticated:
            self._no_longer_unknown(connection)
        else:
            self._unknown.setdefault(connection.address, {})[connection] = None
            self._unknown_count += 1

    def forget(self, connection: Connection) -> None:
        """It has ended; to say so twice is no harm."""
        connection.let_go()
        if self._all.pop(connection, self) is None and not connection.authenticated:
            self._no_longer_unknown(connection)

    def sweep(self) -> None:
        """End those whose clients took too long."""
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
        """Say, now or in a while, that one is ended; ``why`` is one of a few texts of ours."""
        self._log.warning("closed", why, connection.address)

    def make_room(self, why: str) -> bool:
        """End one that may go, whoever it is; whether there was one."""
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
        """The unknown ones of the address that has most of them: no other pays for it."""
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
    """What counts as one address: an IPv4 address, an IPv6 network of 64 bits."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
