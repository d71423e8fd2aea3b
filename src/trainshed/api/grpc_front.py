"""Accepts gRPC connections, and passes their bytes to grpcio.

grpcio binds its ports itself and cannot use a listening socket, so its port would be free while the
server is down.  So grpcio listens on a loopback port that clients do not know, with TLS.  Only a
program on this machine can connect to that port directly; grpcio treats it as any other client.  A
socket in a folder would stay there after the server is killed.

A connection is unknown until a call on it has a valid token.  When there are too many connections,
the oldest unknown one is closed, so that clients without a token cannot block callers.
"""

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

from trainshed.api.connections import Connection, ConnectionLimits, Connections, ConnectionWait
from trainshed.api.relay import RelayEnd
from trainshed.service.ports.listening import BACKLOG

#: The address at which grpcio listens.
HOST: Final = "127.0.0.1"
_CLOSE_S: Final = 3.0


class GrpcFront:
    """Serves a listening socket on a thread of its own."""

    def __init__(self, listener: socket.socket, connections_max: int) -> None:
        """Accept nothing before ``start``; half of the connections may be unknown."""
        self._listener = listener
        unknown_max = max(1, connections_max // 2)
        self._connections = Connections(
            ConnectionLimits(
                connections=connections_max, unauthenticated=unknown_max, per_address=unknown_max
            )
        )
        self._ends: set[_ClientEnd] = set()
        self._by_address: dict[str, Connection] = {}
        """The connections, by the address that grpcio reports as the client's."""
        self._port = 0
        self._clients: dict[str, str] = {}
        """The clients' real addresses, by the address that grpcio reports as the client's."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="grpc-front", daemon=True)

    def start(self, port: int) -> None:
        """Begin to accept; grpcio listens at ``port``."""
        self._port = port
        self._thread.start()

    def stop(self) -> None:
        """Stop accepting, and end all connections."""
        if self._thread.ident is None:
            self._loop.close()
        else:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CLOSE_S)
        self._listener.close()

    def address_of(self, peer: str) -> str:
        """Return the address of a call's client, given grpcio's peer name (``ipv4:HOST:PORT``)."""
        address = unquote(peer).partition(":")[2]
        return self._clients.get(address, address.rpartition(":")[0])

    def recognise(self, peer: str) -> None:
        """Note that a call had a valid token; ``peer`` as for ``address_of``.  Thread-safe."""
        address = unquote(peer).partition(":")[2]
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._mark_recognised, address)

    def _mark_recognised(self, address: str) -> None:
        connection = self._by_address.get(address)
        if connection is not None:
            connection.waits = ConnectionWait.ANSWER
            connection.recognise(authenticated=True)

    def admit(self, end: "_ClientEnd", host: str) -> Connection | None:
        """Admit a connection, which uses three descriptors.  None: there is no room."""
        connection = self._connections.admit(host)
        if connection is not None:
            connection.cut = end.transport.abort
            self._ends.add(end)
        return connection

    def leave(self, end: "_ClientEnd") -> None:
        """Forget an ended connection."""
        self._ends.discard(end)
        if end.connection is not None:
            self._connections.forget(end.connection)

    async def connect(self, end: "_ClientEnd", client: str) -> None:
        """Connect a client's end with grpcio.  Raises OSError."""
        upstream = socket.socket()
        address = ""
        try:
            upstream.setblocking(False)
            await self._loop.sock_connect(upstream, (HOST, self._port))
            address = ":".join(map(str, upstream.getsockname()))
            self._clients[address] = client
            if end.connection is not None:
                self._by_address[address] = end.connection
            forget = partial(self._forget, address)
            await self._loop.create_connection(partial(_GrpcEnd, end, forget), sock=upstream)
        except BaseException:
            self._forget(address)
            upstream.close()
            raise

    def _forget(self, address: str) -> None:
        self._clients.pop(address, None)
        self._by_address.pop(address, None)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._listener.setblocking(False)
        accepting = self._loop.create_server(partial(_ClientEnd, self), sock=self._listener)
        server = self._loop.run_until_complete(accepting)
        self._listener.listen(BACKLOG)  # asyncio's backlog is also how many it accepts at once
        try:
            self._loop.run_forever()
        finally:
            server.close()
            self._loop.run_until_complete(self._end_all())
            self._loop.close()

    async def _end_all(self) -> None:
        """End all connections, also those that are not connected with grpcio yet."""
        for end in tuple(self._ends):
            end.transport.abort()
            if end.other is not None:
                end.other.transport.abort()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the transports close their sockets now


class _ClientEnd(RelayEnd):
    """The client's end of one connection."""

    def __init__(self, front: GrpcFront) -> None:
        super().__init__()
        self._front = front
        self._connecting: asyncio.Task[None] | None = None
        self._client = ""
        self.connection: Connection | None = None

    def connection_made(self, transport: Any) -> None:
        """Pause reading until grpcio is connected."""
        super().connection_made(transport)
        peer = transport.get_extra_info("peername") or ("",)  # None if the client has disconnected
        self._client = str(peer[0])
        self.connection = self._front.admit(self, self._client)
        if self.connection is None:
            transport.abort()
            return
        transport.pause_reading()
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def connection_lost(self, exc: Exception | None) -> None:
        """Make room for another connection."""
        self._front.leave(self)
        super().connection_lost(exc)

    async def _connect(self) -> None:
        try:
            await self._front.connect(self, self._client)
        except OSError:
            self.transport.abort()
        else:
            self.transport.resume_reading()


class _GrpcEnd(RelayEnd):
    """The end at grpcio."""

    def __init__(self, client: RelayEnd, forget: Callable[[], object]) -> None:
        super().__init__(client)
        self._forget = forget

    def connection_made(self, transport: Any) -> None:
        """Join both ends; the client may have disconnected."""
        super().connection_made(transport)
        if self.other is not None:
            self.other.other = self
            if self.other.transport.is_closing():
                transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the client's address."""
        self._forget()
        super().connection_lost(exc)
