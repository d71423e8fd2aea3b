"""The gateway at work: its sockets, and the one thread that serves all replicas.

Nothing of it is there before it is opened for the first job that may use it.  Jobs outlive a
server, so the next one listens where the last one did.
"""

import json
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import uvicorn

from trainshed.api.connections import Connection, Connections, Limits
from trainshed.api.gateway.accepting import Entrance, GatewayAccepting, PeerAt
from trainshed.api.gateway.app import Gateway
from trainshed.api.gateway.connection import GatewayConnection
from trainshed.api.gateway.tunnels import Tunnels
from trainshed.api.http_server import HttpServer
from trainshed.service.auth.certificates import ServerTls
from trainshed.service.gateway.places import LEAF, NAMES, GatewayPlace
from trainshed.service.server_files import PUBLIC, write_file

#: Connections at once.  A tenth may be of callers that no attempt is known of, for a moment.
CONNECTIONS_MAX: Final = 2048
ATTEMPT_CONNECTIONS_MAX: Final = 512
_STRANGERS_MAX: Final = 512
_BACKLOG: Final = 1024
_CLOSE_S: Final = 3.0
_FILE: Final = "gateway.json"
_LOOPBACK: Final = "127.0.0.1"
_HTTPS: Final = 443
#: Loopback addresses on which port 443 is tried; 127.0.0.1 is left to whoever has it.
_DIRECT: Final = tuple(f"127.0.0.{last}" for last in range(2, 12))

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """What an administrator chooses."""

    port: int = 0
    """0 picks one."""
    passes_on: bool = False
    """Whether Google's other hosts are reached through tunnels; else each is refused at once."""


class GatewayServer:
    """One data directory's gateway.  Thread-safe."""

    def __init__(
        self,
        data_dir: Path,
        app: Callable[[], Gateway],
        peer_at: PeerAt,
        options: GatewayOptions | None = None,
    ) -> None:
        """``app`` is made when the gateway is opened."""
        self._data_dir = data_dir
        self._app = app
        self._peer_at = peer_at
        self._options = options or GatewayOptions()
        self._lock = threading.Lock()
        self._place: GatewayPlace | None = None
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def open(self) -> GatewayPlace:
        """Listen, unless it does already.  Raises OSError."""
        with self._lock:
            if self._place is None:
                self._place = self._opened()
            return self._place

    def open_again(self) -> None:
        """Listen where an earlier server did, for jobs that run on; a log line if that fails."""
        if (self._data_dir / _FILE).exists():
            try:
                self.open()
            except OSError as error:
                _log.warning("the gateway of running jobs cannot be opened: %s", error)

    def renew(self) -> bool:
        """A chore: whether another certificate is in use from here on.  Raises OSError."""
        return self._tls.renew() if self._place else False

    def close(self) -> None:
        """End it; what is under way is cut off."""
        with self._lock:
            server, thread = self._server, self._thread
        if server and thread:
            server.should_exit = server.force_exit = True
            thread.join(_CLOSE_S)

    def _opened(self) -> GatewayPlace:
        self._tls = ServerTls(self._data_dir, NAMES, LEAF)
        port, address = _remembered(self._data_dir / _FILE)
        listener = _listen(self._options.port or port)
        direct = _direct(address)
        place = GatewayPlace(
            host=_LOOPBACK,
            port=listener.getsockname()[1],
            direct=direct.getsockname()[0] if direct else None,
            bundle=self._tls.files.bundle,
        )
        document = {"port": place.port, "direct": place.direct}
        write_file(self._data_dir / _FILE, json.dumps(document).encode(), PUBLIC)
        self._serve([listener, *([direct] if direct else ())])
        return place

    def _serve(self, listeners: Sequence[socket.socket]) -> None:
        app = self._app()
        entrance = Entrance(
            peer_at=self._peer_at,
            tls=lambda: self._tls.context,
            ends_here=partial(_ends_here, app, self._options),
            attempt_connections_max=ATTEMPT_CONNECTIONS_MAX,
            tunnels=Tunnels(),
        )
        self._server = _Server(app, entrance)
        self._thread = threading.Thread(
            target=self._server.run, args=(list(listeners),), name="gateway", daemon=True
        )
        self._thread.start()


class _Server(HttpServer):
    def __init__(self, app: Gateway, entrance: Entrance) -> None:
        config = uvicorn.Config(
            app,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
            lifespan="off",
        )
        limits = Limits(
            connections=CONNECTIONS_MAX, unauthenticated=_STRANGERS_MAX, per_address=_STRANGERS_MAX
        )
        self._everyone = Connections(limits)
        self._entrance = entrance
        super().__init__(config, self._everyone)

    def accepting(self, loop: Any, listener: socket.socket) -> GatewayAccepting:
        return GatewayAccepting(loop, listener, self.connection, self._everyone, self._entrance)

    def connection(self, held: Connection) -> GatewayConnection:
        return GatewayConnection(
            held,
            self._everyone,
            config=self.config,
            server_state=self.server_state,
            app_state={},
        )


def _ends_here(app: Gateway, options: GatewayOptions, host: str) -> bool:
    """Google's hosts are refused behind their own certificate: a client takes that for an answer.

    A proxy that refuses looks like a broken network, which clients try again for minutes.
    """
    is_googles = host == "googleapis.com" or host.endswith(".googleapis.com")
    return app.ends_here(host) or (is_googles and not options.passes_on)


def _remembered(path: Path) -> tuple[int, str]:
    """The port and the address for 443 of the last gateway; 0 and empty where there was none."""
    with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
        found = json.loads(path.read_text("utf-8"))
        return int(found["port"]), str(found["direct"] or "")
    return 0, ""


def _listen(port: int) -> socket.socket:
    """On the port if it is free, else on another one: jobs that run on have none then."""
    try:
        return socket.create_server((_LOOPBACK, port), backlog=_BACKLOG)
    except OSError as error:
        if not port:
            raise
        _log.warning("the gateway's port %d cannot be had again: %s", port, error.strerror)
    return socket.create_server((_LOOPBACK, 0), backlog=_BACKLOG)


def _direct(address: str) -> socket.socket | None:
    """Port 443 on a loopback address of our own, where the server may have it."""
    for each in dict.fromkeys((address or _DIRECT[0], *_DIRECT)):
        with suppress(OSError):
            return socket.create_server((each, _HTTPS), backlog=_BACKLOG)
    return None
