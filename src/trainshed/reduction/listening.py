"""The sockets of a reducer's processes, all bound before any process starts.

So a port that is taken is said at once, with nothing to clean up.
"""

import errno
import socket
from typing import Final

from trainshed.reduction.settings import ListenAddress, Misplaced

_PORT_MAX: Final = 65535


def listeners_of(place: ListenAddress, procs: int) -> list[socket.socket]:
    """One listening socket a process, on neighbouring ports.  Raises Misplaced."""
    if place.port + procs - 1 > _PORT_MAX:
        raise Misplaced(f"{procs} ports from {place.port} do not fit below {_PORT_MAX + 1}")
    found: list[socket.socket] = []
    try:
        # extended one by one: what was bound before a fault is closed
        found.extend(_listener(place.host, place.port + proc) for proc in range(procs))
    except BaseException:
        for listener in found:
            listener.close()
        raise
    return found


def _listener(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except socket.gaierror as error:
        raise Misplaced(f"{host}: {error.strerror}") from None
    except OSError as error:
        raise Misplaced(_reason(error, host, port)) from None


def _reason(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is taken; choose another with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine; choose one with --host"
    return f"cannot listen on port {port} of {host}: {error.strerror}"
