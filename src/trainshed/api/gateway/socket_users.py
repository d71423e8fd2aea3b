"""Opens sockets that belong to the user of a job.

A socket belongs to the file-system user (``files.acting``) of the thread that makes it, for its
whole life, and the machine's rules by user (``meta skuid`` of nftables, ``ip rule ... uidrange``)
apply to it.  A helper process of the job's user would do the same, for two processes and a socket
transfer per tunnel.
"""

import os
import socket
from typing import Final

from trainshed.engines.base import Endpoint
from trainshed.engines.processes import peers
from trainshed.files.acting import acting_as

_ROOT: Final = 0


def user_of(client: socket.socket) -> int | None:
    """Return the user id of the client's socket; None: not IPv4, or not on this machine."""
    if client.family != socket.AF_INET:
        return None
    client_address, server_address = client.getpeername()[:2], client.getsockname()[:2]
    return peers.user_of(Endpoint(*client_address), Endpoint(*server_address))


def socket_as(user: int | None, family: int, kind: int, protocol: int) -> socket.socket:
    """Return a socket of a user, if this process may make one; else a socket of its own.

    Raises OSError.
    """
    with acting_as(user if user and os.geteuid() == _ROOT else None):
        return socket.socket(family, kind, protocol)
