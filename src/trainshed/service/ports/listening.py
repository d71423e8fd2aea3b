"""The roles of listening sockets, and sockets that end with their process."""

import socket
from collections.abc import Callable
from typing import Final, Protocol

#: Roles of sockets.
API, GRPC, GATEWAY, METRICS = "api", "grpc", "gateway", "metrics"
#: Connections that wait to be accepted, also while the server is away; a client
#: retries further connections after a second.
BACKLOG: Final = 4096
#: Makes a listening socket: role, host, port (0 picks one), backlog.  Raises OSError.
Listen = Callable[[str, str, int, int], socket.socket]
#: The address of the other IP family that a client may try first for the same host name.
TWINS: Final = {"127.0.0.1": "::1", "0.0.0.0": "::", "::1": "127.0.0.1", "::": "0.0.0.0"}  # noqa: S104


def listen(role: str, host: str, port: int, backlog: int) -> socket.socket:
    """Make a listening socket that ends with this process.  Raises OSError."""
    del role
    return socket.create_server((host, port), family=_family_of(host), backlog=backlog)


def reserve(host: str, port: int) -> socket.socket:
    """Bind a socket to an address that nothing listens on: no other program gets its port.

    A client is refused there, and tries its next address.  Raises OSError.
    """
    family = _family_of(host)
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((host, port))
    except BaseException:
        bound.close()
        raise
    return bound


def _family_of(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


class ServerPorts(Protocol):
    """The listening sockets of one server."""

    def listen(self, role: str, host: str, port: int, backlog: int) -> socket.socket:
        """Return a listening socket; port 0 picks one.  Raises OSError."""

    def numbers(self) -> tuple[int, ...]:
        """Return the ports at which the server listens now, in ascending order."""

    def say_ready(self) -> None:
        """Note that the server answers."""

    def close(self) -> bool:
        """Release the sockets; return whether the ports stay open because jobs still run."""


class OwnPorts:
    """Sockets that end with their server."""

    def __init__(self) -> None:
        self._numbers: set[int] = set()

    def listen(self, role: str, host: str, port: int, backlog: int) -> socket.socket:
        """Return a new listening socket; port 0 picks one.  Raises OSError."""
        listener = listen(role, host, port, backlog)
        self._numbers.add(listener.getsockname()[1])
        return listener

    def numbers(self) -> tuple[int, ...]:
        """Return the ports of the open sockets."""
        return tuple(sorted(self._numbers))

    def say_ready(self) -> None:
        """Do nothing: no other process waits for this server."""

    def close(self) -> bool:
        return False
