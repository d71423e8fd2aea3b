"""Binds the gateway's sockets on the machine's network; writes their addresses to a file.

Jobs outlive a server, so the next server listens on the same address and port.
"""

import json
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.engines.processes import identity
from trainshed.engines.processes.identity import Identity
from trainshed.files.server_files import PUBLIC, write_file
from trainshed.service.gateway.places import GatewayPlace
from trainshed.service.ports.listening import GATEWAY, Listen

FILE: Final = "gateway.json"
LOOPBACK: Final = "127.0.0.1"
_HTTP, _HTTPS = 80, 443
#: Loopback addresses on which port 443 is tried; 127.0.0.1 is left to other programs.
_DIRECT: Final = tuple(f"127.0.0.{last}" for last in range(2, 255))
_BACKLOG: Final = 1024

#: Makes a socket of the gateway's, by host and port.
_Listen = Callable[[str, int], socket.socket]


class SocketNote(NamedTuple):
    """The addresses that the last server of a data directory wrote; empty without a file."""

    port: int = 0
    direct: str | None = None
    server: Identity | None = None

    @property
    def has_other_server(self) -> bool:
        """Whether that server is alive and is not this process."""
        server = self.server
        return (
            server is not None
            and server != identity.read_own_identity()
            and identity.is_alive(server)
        )


def read_note(data_dir: Path) -> SocketNote:
    """Read the note; an unreadable file counts as missing."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        document = json.loads((data_dir / FILE).read_text("utf-8"))
        port, direct, server = (document.get(name) for name in ("port", "direct", "server"))
        is_port = isinstance(port, int) and 0 < port < 1 << 16
        return SocketNote(
            port if is_port else 0,
            direct if isinstance(direct, str) and direct else None,
            Identity(*server) if server else None,
        )
    return SocketNote()


def write_note(data_dir: Path, place: GatewayPlace) -> None:
    """Write where this process listens.  Raises OSError."""
    document = {"port": place.port, "direct": place.direct, "server": identity.read_own_identity()}
    write_file(data_dir / FILE, json.dumps(document).encode(), PUBLIC)


class MachineSockets:
    def __init__(self, listen: Listen, hosts: Iterable[str], *, has_direct: bool) -> None:
        """``hosts`` are addresses besides loopback; ``has_direct``: also try Google's ports."""
        self._listen = partial(_listen, listen)
        self._hosts = tuple(hosts)
        self._has_direct = has_direct

    def bind(self, port: int, direct: str | None) -> list[socket.socket]:
        """Bind a port (0: any) on loopback, and on the other addresses where possible.

        Raises OSError.

        ``direct`` is the address that is tried first for Google's ports.
        """
        first = self._listen(LOOPBACK, port)
        bound_port = first.getsockname()[1]
        more = [_try(self._listen, host, bound_port) for host in self._hosts]
        if self._has_direct:
            more += _bind_direct(self._listen, direct)
        return [first, *filter(None, more)]


def place_of(listeners: Sequence[socket.socket], bundle: Path) -> GatewayPlace:
    """Return the place at which the sockets of ``MachineSockets.bind`` listen."""
    (host, port), *more = (listener.getsockname() for listener in listeners)
    direct = next((host for host, number in more if number == _HTTPS), None)
    also = tuple(host for host, number in more if number == port)
    return GatewayPlace(host, port, direct, bundle, also)


def _listen(listen: Listen, host: str, port: int) -> socket.socket:
    return listen(GATEWAY, host, port, _BACKLOG)


def _try(listen: _Listen, host: str, port: int) -> socket.socket | None:
    with suppress(OSError):
        return listen(host, port)
    return None


def _bind_direct(listen: _Listen, direct: str | None) -> Sequence[socket.socket]:
    """Bind Google's ports on another loopback address, if the server is allowed to."""
    for address in dict.fromkeys((direct or _DIRECT[0], *_DIRECT)):
        try:
            https = listen(address, _HTTPS)
        except PermissionError:
            return ()
        except OSError:  # another data directory has it
            continue
        http = _try(listen, address, _HTTP)  # the metadata server's
        return [https, *filter(None, (http,))]
    return ()
