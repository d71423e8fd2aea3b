"""Reserves free ports of a node until the start of the program that will use them."""

import os
import socket
from contextlib import suppress
from typing import Final

#: Linux uses 32768 and above for outgoing connections (ip_local_port_range), so no program takes
#: one of these ports by accident.
_LOW, _HIGH = 15000, 32000
_TRIES: Final = 2000


class PortRuns:
    """Runs of neighbouring ports, which stay bound, so that no other warden can take them."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self, width: int) -> int:
        """Bind ``width`` neighbouring ports and return the first; 0 for a width of 0.

        Raises OSError if no run is free.
        """
        if not width:
            return 0
        for _ in range(_TRIES):
            first = _LOW + int.from_bytes(os.urandom(4), "big") % (_HIGH - _LOW - width)
            run = _bind_run(first, width)
            if run:
                self._held += run
                return first
        raise OSError(f"no {width} neighbouring ports are free between {_LOW} and {_HIGH}")

    def release(self) -> None:
        """Release all ports, so that the program can bind them."""
        for sock in self._held:
            sock.close()
        self._held = []


def _bind_run(first: int, width: int) -> list[socket.socket]:
    run: list[socket.socket] = []
    try:
        for port in range(first, first + width):
            run.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            run[-1].bind(("", port))
    except OSError:
        for sock in run:
            with suppress(OSError):
                sock.close()
        return []
    return run
