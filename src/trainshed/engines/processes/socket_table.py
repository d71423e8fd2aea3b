"""The TCP sockets of this machine's network, and which processes hold them.

The table is /proc/net/tcp: a read of it costs some milliseconds for thousands of connections.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from trainshed.engines.processes import tree

T = TypeVar("T")

_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
#: Columns of the table, and the states of which it is asked.
_LOCAL, _REMOTE, _STATE, _INODE = 1, 2, 3, 9
_ESTABLISHED, _LISTENING = "01", "0A"
#: ``::ffff:`` before an IPv4 address, as the table writes it.
_MAPPED: Final = "0" * 16 + "FFFF0000"
_SOCKET: Final = "socket:["
#: More processes below one ancestor than these are not searched.
_PROCESSES_MAX: Final = 20_000


class Place(NamedTuple):
    """An address as the table writes it, IPv4 wherever it is one, and a port."""

    address: str
    port: int

    @property
    def is_any(self) -> bool:
        """Whether it stands for all addresses."""
        return not self.address.strip("0")


class TcpSocket(NamedTuple):
    """One socket that listens or is connected."""

    local: Place
    remote: Place
    inode: int
    is_listening: bool


def read_sockets() -> list[TcpSocket]:
    """All of this process's network namespace; those of an unreadable table are left out."""
    found: list[TcpSocket] = []
    for table in _TABLES:
        with suppress(OSError, ValueError):
            found += _parse(tree.read(table).splitlines()[1:])
    return found


def connections(sockets: Iterable[TcpSocket]) -> Iterator[tuple[TcpSocket, TcpSocket]]:
    """Both ends of each connection within the machine: who connected, and who listens.

    A connection of which no port is listened on any more begins at the higher port.
    """
    by_ends: dict[tuple[Place, Place], TcpSocket] = {}
    listening = set()
    for socket in sockets:
        if socket.is_listening:
            listening.add(socket.local.port)
        else:
            by_ends[socket.local, socket.remote] = socket
    for (local, remote), one in by_ends.items():
        other = by_ends.get((remote, local))
        ranks = ((remote.port in listening), -remote.port), ((local.port in listening), -local.port)
        if other is not None and ranks[0] > ranks[1]:
            yield one, other


def listeners_of_one_port(sockets: Iterable[TcpSocket]) -> Iterator[tuple[TcpSocket, TcpSocket]]:
    """Each two sockets that get connections to the same address and port (SO_REUSEPORT)."""
    by_port: dict[int, list[TcpSocket]] = {}
    for socket in sockets:
        if socket.is_listening:
            for other in by_port.setdefault(socket.local.port, []):
                if _overlap(socket.local, other.local):
                    yield other, socket
            by_port[socket.local.port].append(socket)


def holders_of(inodes: Collection[int], ancestors: Mapping[int, T]) -> dict[int, tuple[int, T]]:
    """By inode: a process below one of the ancestors that holds the socket, and its ancestor's.

    ``ancestors``: pid → what is given for it.  Sockets that no such process holds are left out.
    """
    wanted = {f"{_SOCKET}{inode}]": inode for inode in inodes}
    found: dict[int, tuple[int, T]] = {}
    for ancestor, given in ancestors.items():
        for _, pid in islice(tree.descendants(ancestor), _PROCESSES_MAX):
            for link in links_of(pid):
                if (inode := wanted.get(link)) is not None:
                    found[inode] = pid, given
    return found


def links_of(pid: int) -> Iterator[str]:
    """What a process has open; nothing of one that ends meanwhile or is not ours to read."""
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208 - thousands of names
            with suppress(OSError):
                yield os.readlink(f"{folder}/{name}")  # noqa: PTH115 - as above


def _parse(lines: Iterable[str]) -> Iterator[TcpSocket]:
    for line in lines:
        columns = line.split()
        if columns[_STATE] in {_ESTABLISHED, _LISTENING}:
            yield TcpSocket(
                local=_place(columns[_LOCAL]),
                remote=_place(columns[_REMOTE]),
                inode=int(columns[_INODE]),
                is_listening=columns[_STATE] == _LISTENING,
            )


def _place(text: str) -> Place:
    address, _, port = text.partition(":")
    return Place(address.removeprefix(_MAPPED), int(port, 16))


def _overlap(one: Place, other: Place) -> bool:
    return one.is_any or other.is_any or one.address == other.address
