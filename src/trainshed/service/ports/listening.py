"""Listening sockets by what they are for; those of most programs end with them."""

import socket
from collections.abc import Callable
from typing import Protocol

#: Roles of sockets.
API, GRPC, GATEWAY = "api", "grpc", "gateway"
#: Makes a listening socket: role, host, port (0 picks one), backlog.  Raises OSError.
Listen = Callable[[str, str, int, int], socket.socket]


def listen(role: str, host: str, port: int, backlog: int) -> socket.socket:
    """Make a listening socket that ends with this process.  Raises OSError."""
    del role
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=backlog)


class Ports(Protocol):
    """The listening sockets of one server."""

    def listen(self, role: str, host: str, port: int, backlog: int) -> socket.socket:
        """Return a listening socket; port 0 picks one.  Raises OSError."""

    def numbers(self) -> tuple[int, ...]:
        """Return the ports at which the server listens now, in their order."""

    def say_ready(self) -> None:
        """Note that the server answers."""

    def renew(self) -> None:
        """Do what is due now and then."""

    def close(self) -> bool:
        """End in order; whether the ports stay held, since jobs run on."""


class OwnPorts:
    """Those of a server that no other follows: they end with it."""

    def __init__(self) -> None:
        """There are none yet."""
        self._numbers: set[int] = set()

    def listen(self, role: str, host: str, port: int, backlog: int) -> socket.socket:
        """Make it.  Raises OSError."""
        made = listen(role, host, port, backlog)
        self._numbers.add(made.getsockname()[1])
        return made

    def numbers(self) -> tuple[int, ...]:
        """Return those of the sockets that were made."""
        return tuple(sorted(self._numbers))

    def say_ready(self) -> None:
        """Nothing waits for it."""

    def renew(self) -> None:
        """Nothing is due."""

    def close(self) -> bool:
        """Nothing stays held."""
        return False
