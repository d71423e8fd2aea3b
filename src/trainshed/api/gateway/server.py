"""Runs the gateway: one thread serves all replicas."""

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import uvicorn

from trainshed.api.connections import Connection, ConnectionLimits, Connections
from trainshed.api.gateway.accepting import Entrance, GatewayAccepting, PeerAt
from trainshed.api.gateway.app import Gateway
from trainshed.api.gateway.connection import GatewayConnection
from trainshed.api.gateway.grpc_bridge import HTTP2, Bridge, OpenCalls
from trainshed.api.gateway.tunnels import Tunnels
from trainshed.api.http_server import HttpServer
from trainshed.api.threads import THREADS, Threads
from trainshed.model.attempt import AttemptKey
from trainshed.service.auth.certificates import ServerTls
from trainshed.service.gateway.attempts import FindAttempt
from trainshed.service.gateway.bundle import ensure_bundle
from trainshed.service.gateway.job_sockets import JobSockets
from trainshed.service.gateway.places import LEAF, NAMES, TELEMETRY_HOSTS

#: The most connections at once; a quarter of them may be of callers not identified yet.
CONNECTIONS_MAX: Final = 2048
ATTEMPT_CONNECTIONS_MAX: Final = 512
_STRANGERS_MAX: Final = 512
#: Calls of jobs at once; they mostly wait for the disk.
_THREADS_MAX: Final = 24


class GatewayServing:
    """Answers replicas; implements ``service.gateway.listening.Serving``."""

    def __init__(  # noqa: PLR0913 - its parts, by name
        self,
        data_dir: Path,
        app: Gateway,
        peer_at: PeerAt,
        find: FindAttempt,
        open_calls: OpenCalls,
        *,
        passes_on: bool = False,
        proxies: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``passes_on``: Google's other hosts are reached through tunnels; else they are refused.

        ``open_calls`` returns the gRPC server.  ``proxies``: the proxy variables that jobs would
        use for other hosts.
        """
        self._data_dir = data_dir
        self._tls = ServerTls(data_dir, NAMES, LEAF, ("http/1.1", HTTP2))
        entrance = Entrance(
            peer_at=peer_at,
            find=find,
            tls=lambda: self._tls.context,
            terminates_tls=partial(_terminates_tls, app.serves, passes_on=passes_on),
            connections_max=CONNECTIONS_MAX - _STRANGERS_MAX,
            attempt_connections_max=ATTEMPT_CONNECTIONS_MAX,
            tunnels=Tunnels(proxies),
        )
        self._open_calls = open_calls
        self._server = _Server(app, entrance, open_calls)

    def run(self, listeners: Sequence[socket.socket], jobs: JobSockets | None = None) -> None:
        """Serve until ``stop``, with threads of its own, so that jobs do not delay API calls."""
        self._server.jobs = jobs or JobSockets(None)
        THREADS.use(Threads(_THREADS_MAX))
        try:
            self._server.run(list(listeners))
        finally:
            self._open_calls.stop()

    def stop(self) -> None:
        """Stop the server from another thread; running calls are cut off."""
        self._server.should_exit = self._server.force_exit = True

    def renew(self) -> bool:
        """Renew the certificate if due; return whether it changed.  Raises OSError."""
        is_new = self._tls.renew()
        if is_new:
            ensure_bundle(self._data_dir, self._tls.files.ca)
        return is_new


class _Server(HttpServer):
    def __init__(self, app: Gateway, entrance: Entrance, open_calls: OpenCalls) -> None:
        config = uvicorn.Config(
            app,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
            lifespan="off",
        )
        limits = ConnectionLimits(
            connections=CONNECTIONS_MAX, unauthenticated=_STRANGERS_MAX, per_address=_STRANGERS_MAX
        )
        self._entrance = entrance
        self._open_calls = open_calls
        self.jobs = JobSockets(None)
        self._job_listeners: dict[socket.socket, GatewayAccepting] = {}
        super().__init__(config, Connections(limits))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener, key in self.jobs.sockets.items():
            self._open(listener, key)
        for changes in self.jobs.changes:
            asyncio.get_running_loop().add_reader(changes.fileno(), self._update)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for changes in self.jobs.changes:
            asyncio.get_running_loop().remove_reader(changes.fileno())
        for accepting in self._job_listeners.values():
            accepting.close()
        await super().shutdown(sockets)

    def _update(self) -> None:
        """Open and close listeners for jobs with networks of their own."""
        changes = self.jobs.update()
        for key, opened in changes.opened:
            self._open(opened, key)
        for ended in changes.ended:
            self._job_listeners.pop(ended).close()
            ended.close()

    def _open(self, listener: socket.socket, key: AttemptKey | None) -> None:
        self._job_listeners[listener] = GatewayAccepting(
            asyncio.get_running_loop(),
            listener,
            self.connection,
            self._connections,
            self._entrance,
            key,
        )

    def accepting(self, loop: Any, listener: socket.socket) -> GatewayAccepting:
        return GatewayAccepting(loop, listener, self.connection, self._connections, self._entrance)

    def connection(self, connection: Connection) -> GatewayConnection:
        return GatewayConnection(
            connection,
            self._connections,
            config=self.config,
            server_state=self.server_state,
            app_state={},
            bridge=partial(Bridge, connection, self._connections, self._open_calls),
        )


def _terminates_tls(serves: Callable[[str], bool], host: str, *, passes_on: bool) -> bool:
    """Return whether the gateway itself answers as a host, also to refuse Google's other hosts.

    A refusal by the proxy looks like a network failure, which clients retry for minutes.
    """
    is_googles = host == "googleapis.com" or host.endswith(".googleapis.com")
    passes = passes_on or host in TELEMETRY_HOSTS
    return serves(host) or (is_googles and not passes)
