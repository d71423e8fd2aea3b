"""Free ports of a node, kept from all others until the program that they are for is started."""

import os
import socket
from contextlib import suppress
from typing import Final

#: Linux hands out 32768 and above (ip_local_port_range): no program takes one of these by accident.
_LOW, _HIGH = 15000, 32000
_TRIES: Final = 2000


class PortRuns:
    """Runs of neighbouring ports, bound so that no other warden of the node finds them free."""

    def __init__(self) -> None:
        """None yet."""
        self._held: list[socket.socket] = []

    def take(self, width: int) -> int:
        """The first of so many neighbouring ports; 0 for none.  Raises OSError where none is."""
        if not width:
            return 0
        for _ in range(_TRIES):
            first = _LOW + int.from_bytes(os.urandom(4), "big") % (_HIGH - _LOW - width)
            run = _bind_run(first, width)
            if run:
                self._held += run
                return first
        raise OSError(f"no {width} neighbouring ports are free between {_LOW} and {_HIGH}")

    def give(self) -> None:
        """The program binds them from now on."""
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
