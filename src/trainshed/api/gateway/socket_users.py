"""Sockets that belong to the user of a job, though the server opens them.

A socket belongs to the file-system user (setfsuid(2)) of the thread that makes it, and rules of the
machine by user (``meta skuid`` of nftables, ``ip rule ... uidrange``) go by that for its life.  The
number is a thread's own in Linux, so other threads of the server keep theirs.  A helper process of
the job's user would do the same for two processes and a hand-over a tunnel.
"""

import ctypes
import os
import socket
from functools import cache
from typing import Any, Final

from trainshed.engines.base import End
from trainshed.engines.processes import peers

_ROOT: Final = 0


def user_of(client: socket.socket) -> int | None:
    """Return the user of the socket at the other end; None where this machine does not have it."""
    if client.family != socket.AF_INET:
        return None
    theirs, ours = client.getpeername()[:2], client.getsockname()[:2]
    return peers.user_of(End(*theirs), End(*ours))


def socket_as(user: int | None, family: int, kind: int, protocol: int) -> socket.socket:
    """Return a socket of a user, where this process may give it away; else its own.

    Raises OSError.
    """
    if not user or os.geteuid() != _ROOT:
        return socket.socket(family, kind, protocol)
    _libc().setfsuid(user)
    try:
        return socket.socket(family, kind, protocol)
    finally:
        _libc().setfsuid(_ROOT)


@cache
def _libc() -> Any:
    return ctypes.CDLL(None)
