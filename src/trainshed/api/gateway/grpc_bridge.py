"""Passes the bytes of an HTTP/2 connection, after TLS, to the server of grpcio."""

import asyncio
import logging
import socket
from functools import partial
from typing import Any, Final, Protocol

from trainshed.api.connections import Connection, Connections, ConnectionWait
from trainshed.api.relay import RelayEnd
from trainshed.api.threads import THREADS
from trainshed.service.gateway.attempts import LivingAttempt

#: The protocol that a gRPC client offers in its handshake (ALPN), and the HTTP/2 preface.
HTTP2: Final = "h2"

_log: Final = logging.getLogger(__name__)


class Calls(Protocol):
    """The gRPC server (``grpc_calls.GrpcCalls``)."""

    def socket_names_for(self, peer: LivingAttempt) -> tuple[str, str]:
        """Return the name to bind to, and the path to connect with.  Raises OSError."""

    def forget(self, name: str) -> None:
        """Forget an ended connection."""


class OpenCalls(Protocol):
    """Returns the gRPC server, and stops it."""

    def __call__(self) -> Calls:
        """Return the server; the first call creates it, which is slow."""

    def stop(self) -> None:
        """End the server, if it was made."""


class Bridge(RelayEnd):
    """The client's end of the connection."""

    def __init__(
        self, connection: Connection, connections: Connections, open_calls: OpenCalls
    ) -> None:
        super().__init__()
        self._connection = connection
        self._connections = connections
        self._open_calls = open_calls
        self._calls: Calls | None = None
        self._name = ""
        self._joining: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        """Pause reading until the server's end is connected."""
        super().connection_made(transport)
        transport.pause_reading()
        self._connection.waits, self._connection.due = ConnectionWait.ANSWER, float("inf")
        # both end the connection: the server needs its place, or the client is too slow
        self._connection.cut = self._connection.late = transport.abort
        self._joining = asyncio.get_running_loop().create_task(self._join())

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the server's end."""
        self._connections.forget(self._connection)
        self._forget()
        super().connection_lost(exc)

    async def _join(self) -> None:
        try:
            await self._connect_peer(self._connection.peer)
        except Exception as error:  # noqa: BLE001 - a paused connection would stay open forever
            if not isinstance(error, OSError):
                _log.warning("cannot connect a gRPC client: %r", error)
            self._forget()
            self.transport.abort()
            if self.other is not None:
                self.other.transport.close()
        else:
            self.transport.resume_reading()

    async def _connect_peer(self, peer: object) -> None:
        """Start the gRPC server if needed, and connect to it.  Raises OSError."""
        if not isinstance(peer, LivingAttempt):
            raise ConnectionRefusedError
        self._calls = await THREADS.run(self._open_calls)
        self._name, server_path = await THREADS.run(self._calls.socket_names_for, peer)
        await self._connect(server_path)
        if self.transport.is_closing():
            raise ConnectionAbortedError

    async def _connect(self, server_path: str) -> None:
        """Connect to the server's socket at this path.  Raises OSError."""
        upstream = socket.socket(socket.AF_UNIX)
        try:
            upstream.setblocking(False)
            upstream.bind(self._name)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(upstream, server_path)
            _, self.other = await loop.create_unix_connection(
                partial(RelayEnd, self), sock=upstream
            )
        except BaseException:
            upstream.close()
            raise

    def _forget(self) -> None:
        if self._calls is not None and self._name:
            self._calls.forget(self._name)
