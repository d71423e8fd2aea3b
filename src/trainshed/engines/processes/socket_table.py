"""Reads the TCP sockets of a network namespace, and finds the processes that hold them.

The table is /proc/net/tcp: one read takes some milliseconds for thousands of connections.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from trainshed.engines.processes import tree

T = TypeVar("T")

#: The tables of this process's own network namespace.
OWN_TABLES: Final = "/proc/net"
_NAMES: Final = ("tcp", "tcp6")
#: Columns of a table.
_LOCAL, _REMOTE, _STATE, _UID, _INODE = 1, 2, 3, 7, 9
_ESTABLISHED, _LISTENING = "01", "0A"
_IN_USE: Final = (_ESTABLISHED, _LISTENING)
#: ``::ffff:`` before an IPv4 address, as the table writes it.
_MAPPED: Final = "0" * 16 + "FFFF0000"
_LINK: Final = "socket:["
#: Maximum of processes to search below one ancestor.
_PROCESSES_MAX: Final = 20_000


class SocketAddress(NamedTuple):
    """An address in the table's form, and a port.  IPv4 addresses in IPv6 form become IPv4."""

    address: str
    port: int

    @property
    def is_any(self) -> bool:
        """Whether the address stands for all addresses (0.0.0.0 or ::)."""
        return not self.address.strip("0")


class TcpSocket(NamedTuple):
    """One row of a table: a TCP socket."""

    local: SocketAddress
    remote: SocketAddress
    inode: int
    """0: no process holds the connection."""
    state: str
    """The state as a hexadecimal number."""
    uid: int = 0
    """The number of the socket's user."""

    @property
    def is_listening(self) -> bool:
        """Whether the socket accepts connections."""
        return self.state == _LISTENING

    @property
    def is_established(self) -> bool:
        """Whether the socket is a connection that neither end has begun to close."""
        return self.state == _ESTABLISHED


def read_sockets(tables: str = OWN_TABLES, *, in_use: bool = False) -> Iterator[TcpSocket]:
    """Yield the TCP sockets in the tables of a folder; an unreadable table counts as empty.

    ``in_use``: yield only listening and connected sockets; a busy machine has many more others.
    """
    for name in _NAMES:
        with suppress(OSError, ValueError, IndexError):
            for line in tree.read(f"{tables}/{name}").splitlines()[1:]:
                columns = line.split(None, _INODE + 1)
                if not in_use or columns[_STATE] in _IN_USE:
                    yield TcpSocket(
                        local=_parse_address(columns[_LOCAL]),
                        remote=_parse_address(columns[_REMOTE]),
                        inode=int(columns[_INODE]),
                        state=columns[_STATE],
                        uid=int(columns[_UID]),
                    )


def find_holders(inodes: Collection[int], ancestors: Mapping[int, T]) -> dict[int, tuple[int, T]]:
    """Find the process that has each socket open, among the descendants of ``ancestors``.

    ``ancestors`` maps pids to values.  Return (pid, value of the ancestor) by inode; leave out
    sockets that no descendant has open.
    """
    holders: dict[int, tuple[int, T]] = {}
    wanted = set(inodes)
    for ancestor, owner in ancestors.items():
        for _, pid in islice(tree.descendants(ancestor), _PROCESSES_MAX):
            for inode in held_inodes(pid):
                if inode in wanted:
                    holders[inode] = pid, owner
    return holders


def held_inodes(pid: int) -> Iterator[int]:
    """Yield the inode of each socket that a process has open.

    Yield nothing for a process that ends meanwhile, or that this process may not inspect.
    """
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208 - thousands of names
            with suppress(OSError):
                link = os.readlink(f"{folder}/{name}")  # noqa: PTH115 - as above
                if link.startswith(_LINK):
                    yield int(link[len(_LINK) : -1])


def _parse_address(text: str) -> SocketAddress:
    address, _, port = text.partition(":")
    return SocketAddress(address.removeprefix(_MAPPED), int(port, 16))
