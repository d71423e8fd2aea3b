"""Finds the process at the remote end of a connection between two processes of this machine.

The kernel names the socket at the remote end (by sock_diag(7), or by /proc/net/tcp if sock_diag is
forbidden), and /proc shows which process has this socket open.  The search covers only descendants
of given processes.  A client cannot pretend to be another process.

``remote`` and ``local`` are the two ends of the connection, as the local process sees them.
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
from trainshed.engines.processes.identity import Identity, find_identity
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
#: The results of recent searches: (ancestor, identity) by pid.  Most of these processes connect
#: again, and a search is slow.  A process stays below its supervisor, which adopts orphans.
_recent: dict[int, tuple[int, Identity | None]] = {}
_RECENT_MAX: Final = 256
#: Maximum of processes to search below one ancestor.
_PROCESSES_MAX: Final = 20_000


def holder_of(remote: Endpoint, local: Endpoint, ancestors: Mapping[int, T]) -> T | None:
    """Return the value of the ancestor of the process that has the remote socket open.

    ``ancestors`` maps pids to values.  None: no process below these ancestors has it open.
    """
    inode = socket_of(remote, local)
    if not inode:
        return None
    for pid, (ancestor, process) in reversed(_recent.copy().items()):
        if ancestor in ancestors and inode in held_inodes(pid) and find_identity(pid) == process:
            return ancestors[ancestor]
    for ancestor, owner in ancestors.items():
        for pid in _list_below(ancestor):
            if inode in held_inodes(pid):
                _remember(pid, ancestor)
                return owner
    return None


def holder_in(remote: Endpoint, local: Endpoint, roots: Mapping[int, T]) -> T | None:
    """Return the same as ``holder_of``, but for containers with their own networks.

    ``roots`` maps the pid of each container's first process to a value.
    """
    for root, owner in roots.items():
        inode = _read_inode(remote, local, f"/proc/{root}/net")
        if inode and any(inode in held_inodes(pid) for pid in (root, *_list_below(root))):
            return owner
    return None


def user_of(remote: Endpoint, local: Endpoint) -> int | None:
    """Return the user id of the socket at the remote end; None if it is unknown."""
    with suppress(OSError):
        return row[_UID] if (row := _query(remote, local)) else None
    return None


def socket_of(remote: Endpoint, local: Endpoint) -> int:
    """Return the inode of the socket at the remote end; 0 if the socket was closed."""
    with suppress(OSError):
        return _query_inode(remote, local)
    return _read_inode(remote, local)


def _remember(pid: int, ancestor: int) -> None:
    if len(_recent) >= _RECENT_MAX:
        _recent.clear()
    _recent[pid] = ancestor, find_identity(pid)


def _list_below(ancestor: int) -> Iterator[int]:
    """Yield the pids of the descendants of a process, at most ``_PROCESSES_MAX``."""
    for count, (_, pid) in enumerate(tree.descendants(ancestor)):
        if count == _PROCESSES_MAX:
            return
        yield pid


def _query_inode(remote: Endpoint, local: Endpoint) -> int:
    """Query the kernel for the inode of the remote socket; 0: it was closed.  Raises OSError."""
    row = _query(remote, local)
    return row[_SOCKET] if row else 0


def _query(remote: Endpoint, local: Endpoint) -> tuple[int, ...] | None:
    """Query the kernel for the remote socket; None: it was closed.  Raises OSError."""
    query = _QUERY.pack(
        socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ANY_STATE,
        struct.pack("!H", remote.port), struct.pack("!H", local.port),
        _pack(remote.host), _pack(local.host),
        0, _ANY_COOKIE, _ANY_COOKIE,
    )  # fmt: skip
    header = _HEADER.pack(_HEADER.size + len(query), _SOCK_DIAG_BY_FAMILY, _REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_WAIT_S)
        kernel.sendto(header + query, (0, 0))
        answer = kernel.recv(_BYTES_MAX)
    kind = _HEADER.unpack_from(answer)[1]
    if kind != _SOCK_DIAG_BY_FAMILY:
        code = struct.unpack_from("=i", answer, _HEADER.size)[0]
        if code == -errno.ENOENT:
            return None
        raise OSError(-code, os.strerror(-code))
    return _ANSWER.unpack_from(answer, _HEADER.size)


def _pack(host: str) -> bytes:
    return socket.inet_aton(host).ljust(16, b"\0")


def _read_inode(remote: Endpoint, local: Endpoint, tables: str = OWN_TABLES) -> int:
    """Read the inode of the remote socket from the table of all connections; 0: no such row."""
    ends = _table_address(remote), _table_address(local)
    sockets = read_sockets(tables)
    return next((row.inode for row in sockets if (row.local, row.remote) == ends), 0)


def _table_address(endpoint: Endpoint) -> SocketAddress:
    """Return an endpoint in the table's form: the address is a number in native byte order."""
    (number,) = struct.unpack("=I", socket.inet_aton(endpoint.host))
    return SocketAddress(f"{number:08X}", endpoint.port)
