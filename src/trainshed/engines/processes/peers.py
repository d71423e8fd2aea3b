"""Finds the process at the other end of a connection on this machine.

The kernel says which socket the other end is (sock_diag(7), or /proc/net/tcp where that is
forbidden), and /proc which process holds it.  Only descendants of known processes are searched.
A caller cannot claim to be another process.
"""

import errno
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final, TypeVar

from trainshed.engines.base import Endpoint
from trainshed.engines.processes import tree
from trainshed.engines.processes.socket_table import (
    OWN_TABLES,
    SocketAddress,
    held_inodes,
    read_sockets,
)

T = TypeVar("T")

#: From linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_REQUEST: Final = 1
_HEADER: Final = struct.Struct("=IHHII")
_QUERY: Final = struct.Struct("=BBBBI2s2s16s16sIII")
#: inet_diag_msg: family, state, timer, retrans, the socket's id, expires, queues, uid, inode.
_ANSWER: Final = struct.Struct("=BBBB48sIIIII")
_UID, _SOCKET = 8, 9
_ANY_STATE: Final = 0xFFFFFFFF
_ANY_COOKIE: Final = 0xFFFFFFFF
_WAIT_S: Final = 1.0
_BYTES_MAX: Final = 1 << 16
#: Field 22 of proc(5)'s stat, counted behind the command's closing bracket.
_START: Final = 22 - 3
#: The processes of the last calls, with root and start: most call again, and a search is slow.
#: A process stays below its supervisor, which adopts orphans.
_recent: dict[int, tuple[int, str]] = {}
_RECENT_MAX: Final = 256
#: More processes of one attempt than these are not searched.
_PROCESSES_MAX: Final = 20_000


def holder_of(theirs: Endpoint, ours: Endpoint, ancestors: Mapping[int, T]) -> T | None:
    """Below which of some processes is the one that holds ``theirs``; None: below none of them.

    ``ancestors``: pid → what is given for it.
    """
    inode = socket_of(theirs, ours)
    if not inode:
        return None
    for pid, (ancestor, since) in reversed(_recent.copy().items()):
        if ancestor in ancestors and inode in held_inodes(pid) and _start_ticks(pid) == since:
            return ancestors[ancestor]
    for ancestor, owner in ancestors.items():
        for pid in _list_below(ancestor):
            if inode in held_inodes(pid):
                _remember(pid, ancestor)
                return owner
    return None


def holder_in(theirs: Endpoint, ours: Endpoint, roots: Mapping[int, T]) -> T | None:
    """The same for containers, by their first processes, which may have a network of their own."""
    for root, owner in roots.items():
        inode = _read_inode(theirs, ours, f"/proc/{root}/net")
        if inode and any(inode in held_inodes(pid) for pid in (root, *_list_below(root))):
            return owner
    return None


def user_of(theirs: Endpoint, ours: Endpoint) -> int | None:
    """Return the user of the socket that is connected to ours; None if it is not known."""
    with suppress(OSError):
        return answer[_UID] if (answer := _answer(theirs, ours)) else None
    return None


def socket_of(theirs: Endpoint, ours: Endpoint) -> int:
    """The inode of the socket that is connected to ours; 0 where there is none any more."""
    with suppress(OSError):
        return _query_inode(theirs, ours)
    return _read_inode(theirs, ours)


def _start_ticks(pid: int) -> str:
    """When a process was started, in the kernel's words; it tells it from a later one."""
    with suppress(OSError):
        return tree.stat_fields(pid)[_START]
    return ""


def _remember(pid: int, ancestor: int) -> None:
    if len(_recent) >= _RECENT_MAX:
        _recent.clear()
    _recent[pid] = ancestor, _start_ticks(pid)


def _list_below(ancestor: int) -> Iterator[int]:
    for count, (_, pid) in enumerate(tree.descendants(ancestor)):
        if count == _PROCESSES_MAX:
            return
        yield pid


def _query_inode(theirs: Endpoint, ours: Endpoint) -> int:
    """Return the inode of this one socket by the kernel; 0 for none.  Raises OSError."""
    answer = _answer(theirs, ours)
    return answer[_SOCKET] if answer else 0


def _answer(theirs: Endpoint, ours: Endpoint) -> tuple[int, ...] | None:
    """Ask the kernel for this one socket; None: there is none any more.  Raises OSError."""
    query = _QUERY.pack(
        socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ANY_STATE,
        struct.pack("!H", theirs.port), struct.pack("!H", ours.port),
        _pack(theirs.host), _pack(ours.host),
        0, _ANY_COOKIE, _ANY_COOKIE,
    )  # fmt: skip
    header = _HEADER.pack(_HEADER.size + len(query), _SOCK_DIAG_BY_FAMILY, _REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as asking:
        asking.settimeout(_WAIT_S)
        asking.sendto(header + query, (0, 0))
        answer = asking.recv(_BYTES_MAX)
    kind = _HEADER.unpack_from(answer)[1]
    if kind != _SOCK_DIAG_BY_FAMILY:
        code = struct.unpack_from("=i", answer, _HEADER.size)[0]
        if code == -errno.ENOENT:
            return None
        raise OSError(-code, os.strerror(-code))
    return _ANSWER.unpack_from(answer, _HEADER.size)


def _pack(host: str) -> bytes:
    return socket.inet_aton(host).ljust(16, b"\0")


def _read_inode(theirs: Endpoint, ours: Endpoint, tables: str = OWN_TABLES) -> int:
    """Return the same inode by the table of all connections."""
    ends = _place(theirs), _place(ours)
    sockets = read_sockets(tables)
    return next((row.inode for row in sockets if (row.local, row.remote) == ends), 0)


def _place(end: Endpoint) -> SocketAddress:
    """An end as the table writes it: an address is a number in the machine's own order."""
    (number,) = struct.unpack("=I", socket.inet_aton(end.host))
    return SocketAddress(f"{number:08X}", end.port)
