"""Reserves free ports of a node until the start of the program that will use them."""

import os
from _socket import AF_INET, SOCK_STREAM, socket  # the module socket imports ten others
from contextlib import suppress
from typing import Final

#: Linux uses 32768 and above for outgoing connections (ip_local_port_range), so no program takes
#: one of these ports by accident.
_LOW, _HIGH = 15000, 32000
_TRIES: Final = 2000


class PortReservation:
    """Groups of neighbouring ports, which stay bound, so that no other warden can take them."""

    def __init__(self) -> None:
        self._sockets: list[socket] = []

    def take(self, width: int) -> int:
        """Bind ``width`` neighbouring ports and return the first; 0 for a width of 0.

        Raises OSError if no such group is free.
        """
        if not width:
            return 0
        for _ in range(_TRIES):
            first = _LOW + int.from_bytes(os.urandom(4), "big") % (_HIGH - _LOW - width)
            sockets = _bind_ports(first, width)
            if sockets:
                self._sockets += sockets
                return first
        raise OSError(
            f"cannot find {width} free neighbouring ports between {_LOW} and {_HIGH}: end programs "
            "that listen on many ports of this node"
        )

    def release(self) -> None:
        """Release all ports, so that the program can bind them."""
        for sock in self._sockets:
            sock.close()
        self._sockets = []


def _bind_ports(first: int, width: int) -> list[socket]:
    """Bind ``width`` ports from ``first``; return an empty list if one of them is in use."""
    sockets: list[socket] = []
    try:
        for port in range(first, first + width):
            sockets.append(socket(AF_INET, SOCK_STREAM))
            sockets[-1].bind(("", port))
    except OSError:
        for sock in sockets:
            with suppress(OSError):
                sock.close()
        return []
    return sockets
