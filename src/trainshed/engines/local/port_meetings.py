"""Finds the attempts that use the same port of the machine, by the holders of sockets.

An attempt may hold any number of sockets, so no loop goes over all pairs of sockets.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple

from trainshed.engines.processes.socket_table import SocketAddress, TcpSocket
from trainshed.model.attempt import AttemptKey


class SocketHolder(NamedTuple):
    """A process of an attempt that holds a socket."""

    pid: int
    attempt: AttemptKey


class Meeting(NamedTuple):
    """Two attempts that use the same port: both listen, or one is connected to the other."""

    first: AttemptKey
    second: AttemptKey
    """The listening attempt, if the first attempt is connected to it."""
    port: int
    both_listen: bool


Meetings = dict[Meeting, tuple[SocketHolder, SocketHolder]]


def list_candidates(sockets: Sequence[TcpSocket]) -> Iterator[int]:
    """Yield the inodes of sockets that share a port with another socket of this machine."""
    for client, server in pair_connections(sockets):
        yield client.inode
        yield server.inode
    for listeners in _listeners_by_port(sockets).values():
        if len(listeners) > 1:
            yield from (listener.inode for listener in listeners)


def find_meetings(sockets: Sequence[TcpSocket], holders: Mapping[int, SocketHolder]) -> Meetings:
    """Find all pairs of attempts that use the same port; ``holders`` has a process by inode."""
    meetings: Meetings = {}

    def add(first: SocketHolder, second: SocketHolder, port: int, *, both_listen: bool) -> None:
        if first.attempt != second.attempt:
            meeting = Meeting(first.attempt, second.attempt, port, both_listen)
            meetings[meeting] = first, second

    for client, server in pair_connections(sockets):
        if client.inode in holders and server.inode in holders:
            pair = holders[client.inode], holders[server.inode]
            add(*pair, server.local.port, both_listen=False)
    for port, listeners in _listeners_by_port(sockets).items():
        addresses = [(row.local, holders[row.inode]) for row in listeners if row.inode in holders]
        for holder_pair in _pair_listeners(addresses):
            first, second = sorted(holder_pair, key=lambda holder: holder.attempt)
            add(first, second, port, both_listen=True)
    return meetings


def pair_connections(sockets: Iterable[TcpSocket]) -> Iterator[tuple[TcpSocket, TcpSocket]]:
    """Yield both ends of each connection within the machine: the client, then the server.

    If no socket listens on either port any more, the client is the end with the higher port.
    """
    by_ends: dict[tuple[SocketAddress, SocketAddress], TcpSocket] = {}
    listening = set()
    for socket in sockets:
        if socket.is_listening:
            listening.add(socket.local.port)
        elif socket.is_established:
            by_ends[socket.local, socket.remote] = socket
    for (local, remote), client in by_ends.items():
        server = by_ends.get((remote, local))
        ranks = ((remote.port in listening), -remote.port), ((local.port in listening), -local.port)
        if server is not None and ranks[0] > ranks[1]:
            yield client, server


def _listeners_by_port(sockets: Iterable[TcpSocket]) -> dict[int, list[TcpSocket]]:
    by_port: dict[int, list[TcpSocket]] = {}
    for socket in sockets:
        if socket.is_listening:
            by_port.setdefault(socket.local.port, []).append(socket)
    return by_port


def _pair_listeners(
    listeners: Iterable[tuple[SocketAddress, SocketHolder]],
) -> Iterator[tuple[SocketHolder, SocketHolder]]:
    """Yield the pairs of attempts whose listening addresses at a port overlap."""
    on_any_address: dict[AttemptKey, SocketHolder] = {}
    by_address: dict[str, dict[AttemptKey, SocketHolder]] = {}
    for local, holder in listeners:
        owners = on_any_address if local.is_any else by_address.setdefault(local.address, {})
        owners.setdefault(holder.attempt, holder)
    on_one_address = {
        key: holder for owners in by_address.values() for key, holder in owners.items()
    }
    yield from combinations(on_any_address.values(), 2)
    yield from product(on_any_address.values(), on_one_address.values())
    for owners in by_address.values():
        yield from combinations(owners.values(), 2)
