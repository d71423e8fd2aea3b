"""uvicorn with its own accept loop, which counts a connection as soon as it is accepted.

uvicorn and asyncio see a connection only after its TLS handshake, and until then a client could
hold its descriptor for an unlimited time.
"""

import asyncio
import errno
import resource
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import uvicorn

from trainshed.api.connections import Connection, Connections
from trainshed.api.http_connection import HttpConnection

#: Connections accepted in one go; reading them comes first, so that complete requests are known.
ACCEPTED_AT_ONCE: Final = 16
#: Seconds without accepting while the process has no descriptor left.
PAUSE_S: Final = 0.1
#: The most descriptors to request; child processes inherit the limit.
DESCRIPTORS_MAX: Final = 65_536
#: Options of accepted connections.  They detect a vanished client within two minutes, also on a
#: quiet stream, but do not end a client that reads slowly.
_INHERITED: Final = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
)
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def raise_descriptors() -> int:
    """Raise the soft limit of descriptors as far as allowed; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = max(soft, min(hard, DESCRIPTORS_MAX))
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class OtherApp(NamedTuple):
    """An application on a listening socket of its own, without TLS."""

    listener: socket.socket
    config: uvicorn.Config


class HttpServer(uvicorn.Server):
    """Serves the configured application on one listening socket, and others on theirs."""

    def __init__(
        self,
        config: uvicorn.Config,
        connections: Connections,
        tls: Callable[[], ssl.SSLContext] | None = None,
        others: Sequence[OtherApp] = (),
    ) -> None:
        """``tls`` returns the context of new handshakes; None: plain HTTP."""
        super().__init__(config)
        self._connections = connections
        self._tls = tls
        self._others = others

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept, instead of with asyncio's servers as uvicorn does."""
        await self.lifespan.startup()
        loop = asyncio.get_running_loop()
        accepting = [self.accepting(loop, listener) for listener in sockets or ()]
        accepting += [self._accepting_other(loop, other) for other in self._others]
        self.servers = accepting  # type: ignore[assignment]  # uvicorn only closes them and waits
        self.started = True

    def accepting(self, loop: asyncio.AbstractEventLoop, listener: socket.socket) -> "Accepting":
        """Return the object that accepts connections of a listening socket."""
        return Accepting(loop, listener, self.connection, self._connections, self._tls)

    def _accepting_other(self, loop: asyncio.AbstractEventLoop, other: OtherApp) -> "Accepting":
        other.config.load()
        make = partial(self._connect, other.config)
        return Accepting(loop, other.listener, make, self._connections, None)

    async def on_tick(self, counter: int) -> bool:
        """Run periodic work, ten times a second."""
        self._connections.sweep()
        return await super().on_tick(counter)

    def connection(self, connection: Connection) -> HttpConnection:
        """Return the protocol of a connection."""
        return self._connect(self.config, connection)

    def _connect(self, config: uvicorn.Config, connection: Connection) -> HttpConnection:
        return HttpConnection(
            connection,
            self._connections,
            config=config,
            server_state=self.server_state,
            app_state={},
        )


class Accepting:
    """Accepts connections of a listening socket."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        make: Callable[[Connection], asyncio.BaseProtocol],
        connections: Connections,
        tls: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        """Begin to accept connections."""
        self._loop = loop
        self._listener = listener
        self._make = make
        self._connections = connections
        self._tls = tls
        self._opening: set[asyncio.Task[None]] = set()
        self._is_closed = False
        listener.setblocking(False)
        for level, option, value in _INHERITED:
            listener.setsockopt(level, option, value)
        self._resume()

    def close(self) -> None:
        """Stop accepting."""
        self._is_closed = True
        self._loop.remove_reader(self._listener.fileno())
        for task in self._opening:
            task.cancel()

    async def wait_closed(self) -> None:
        """Return at once: nothing is left to wait for."""

    def _resume(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, address = self._listener.accept()
            except OSError as error:  # mostly: the queue is empty
                if error.errno in _EXHAUSTED:
                    self._pause(error)
                return
            self._begin(accepted, self.share_of(address))

    def share_of(self, address: tuple[str, int]) -> str:
        """Return the name of the share that an address counts against."""
        return address[0]

    def _pause(self, error: OSError) -> None:
        """Pause: the queue stays readable, so retrying at once would keep the loop busy."""
        self._connections.make_room(f"cannot accept another connection: {error.strerror}")
        self._loop.remove_reader(self._listener.fileno())
        self._loop.call_later(PAUSE_S, self._resume)

    def _begin(self, accepted: socket.socket, host: str) -> None:
        connection = self._connections.admit(host)
        if connection is None:
            accepted.close()
            return
        task = self._loop.create_task(self._open(accepted, connection))
        connection.cut = task.cancel
        self._opening.add(task)
        task.add_done_callback(partial(self._end_opening, accepted, connection))

    def _end_opening(
        self, accepted: socket.socket, connection: Connection, task: asyncio.Task[None]
    ) -> None:
        """Close a connection that was cut before it had a protocol."""
        self._opening.discard(task)
        if task.cancelled():
            self._connections.forget(connection)
            accepted.close()

    async def opened(self, accepted: socket.socket, connection: Connection) -> None:
        """Give the connection to the protocol, with TLS after the handshake.  Raises OSError."""
        await self.hand_over(accepted, connection, self._tls)

    async def hand_over(
        self,
        accepted: socket.socket,
        connection: Connection,
        tls: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        """Give the connection to the protocol.  Raises OSError."""
        make = partial(self._make, connection)
        # a cancelled hand-over may lose its protocol; one whose socket has ended does not block
        connection.cut = partial(_shut, accepted)
        await self._loop.connect_accepted_socket(make, accepted, **self._tls_options(tls))

    async def _open(self, accepted: socket.socket, connection: Connection) -> None:
        try:
            await self.opened(accepted, connection)
        except OSError as error:  # includes TLS errors
            if isinstance(error, ssl.SSLError):
                self._connections.report_closed(connection, "the TLS handshake failed")
            self._connections.forget(connection)
            accepted.close()
        except Exception as error:  # noqa: BLE001  # a bug must not leave the connection open
            self._connections.report_closed(
                connection, f"opening the connection failed ({type(error).__name__})"
            )
            self._connections.forget(connection)
            accepted.close()

    def _tls_options(self, tls: Callable[[], ssl.SSLContext] | None) -> dict[str, Any]:
        if tls is None:
            return {}
        return {"ssl": tls(), "ssl_handshake_timeout": self._connections.times.head_s}


def _shut(accepted: socket.socket) -> None:
    """End the handshake or the protocol that reads from a socket."""
    with suppress(OSError):
        accepted.shutdown(socket.SHUT_RDWR)
