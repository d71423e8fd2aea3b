"""uvicorn with accepting of its own: a connection is counted from its first packet.

uvicorn and asyncio know one only when its TLS handshake is over, and by then its descriptor has
been held for as long as its client liked.
"""

import asyncio
import errno
import resource
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import uvicorn

from trainshed.api.connections import Connection, Connections
from trainshed.api.http_connection import HttpConnection

#: What has been accepted is read before more is: an honest request is whole by then.
ACCEPTED_AT_ONCE: Final = 16
#: How long nobody is accepted where the process has no descriptor left.
PAUSE_S: Final = 0.1
#: More than this is of no use to us, and what is started here begins with it.
DESCRIPTORS_MAX: Final = 65_536
#: Of connections that are accepted.  A client that is gone without a word is noticed in two
#: minutes, also where a stream has nothing to say to it; one that only reads slowly is not.
_INHERITED: Final = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
)
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def raise_descriptors() -> int:
    """Raise the process's soft limit as far as it may be; how many descriptors it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = max(soft, min(hard, DESCRIPTORS_MAX))
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class HttpServer(uvicorn.Server):
    """Serves what the configuration names on one listening socket."""

    def __init__(
        self,
        config: uvicorn.Config,
        connections: Connections,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """``tls`` gives what a handshake begins with; without it plain HTTP is spoken."""
        super().__init__(config)
        self._connections = connections
        self._tls = tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept; in the place of what uvicorn does with asyncio's servers."""
        await self.lifespan.startup()
        loop = asyncio.get_running_loop()
        accepting = [self.accepting(loop, listener) for listener in sockets or ()]
        self.servers = accepting  # type: ignore[assignment]  # it closes them and waits, no more
        self.started = True

    def accepting(self, loop: asyncio.AbstractEventLoop, listener: socket.socket) -> "Accepting":
        """What accepts the connections of a listening socket."""
        return Accepting(loop, listener, self.connection, self._connections, self._tls)

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        self._connections.sweep()
        return await super().on_tick(counter)

    def connection(self, held: Connection) -> HttpConnection:
        """The protocol of a connection."""
        return HttpConnection(
            held,
            self._connections,
            config=self.config,
            server_state=self.server_state,
            app_state={},
        )


class Accepting:
    """A listening socket at work."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        make: Callable[[Connection], asyncio.BaseProtocol],
        connections: Connections,
        tls: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        """Connections are accepted from now on."""
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
        """Accept no more."""
        self._is_closed = True
        self._loop.remove_reader(self._listener.fileno())
        for task in self._opening:
            task.cancel()

    async def wait_closed(self) -> None:
        """Nothing is left to do."""

    def _resume(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, address = self._listener.accept()
            except OSError as error:  # mostly: nobody is left in the queue
                if error.errno in _EXHAUSTED:
                    self._pause(error)
                return
            self._begin(accepted, self.share_of(address))

    def share_of(self, address: tuple[str, int]) -> str:
        """Whose share of the connections an address takes."""
        return address[0]

    def _pause(self, error: OSError) -> None:
        """The queue stays readable: to try at once again would keep the loop busy."""
        self._connections.make_room(f"no more can be accepted, {error.strerror}")
        self._loop.remove_reader(self._listener.fileno())
        self._loop.call_later(PAUSE_S, self._resume)

    def _begin(self, accepted: socket.socket, host: str) -> None:
        held = self._connections.admit(host)
        if held is None:
            accepted.close()
            return
        task = self._loop.create_task(self._open(accepted, held))
        held.cut = task.cancel
        self._opening.add(task)
        task.add_done_callback(partial(self._end_opening, accepted, held))

    def _end_opening(
        self, accepted: socket.socket, held: Connection, task: asyncio.Task[None]
    ) -> None:
        """Close what was cut before a protocol had it, whatever its task waited for."""
        self._opening.discard(task)
        if task.cancelled():
            self._connections.forget(held)
            accepted.close()

    async def opened(self, accepted: socket.socket, held: Connection) -> None:
        """Hand it over to the protocol, with TLS after its handshake.  Raises OSError."""
        await self.hand_over(accepted, held, self._tls)

    async def hand_over(
        self,
        accepted: socket.socket,
        held: Connection,
        tls: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        """The protocol has it from here on.  Raises OSError."""
        make = partial(self._make, held)
        # a hand-over that is cancelled may lose its protocol; one whose socket ends does not wait
        held.cut = partial(_shut, accepted)
        await self._loop.connect_accepted_socket(make, accepted, **self._tls_options(tls))

    async def _open(self, accepted: socket.socket, held: Connection) -> None:
        try:
            await self.opened(accepted, held)
        except OSError as error:  # of TLS, too
            if isinstance(error, ssl.SSLError):
                self._connections.report_closed(held, "no TLS handshake came about")
            self._connections.forget(held)
            accepted.close()
        except Exception as error:  # noqa: BLE001  # of ours: a connection must not stay open for it
            self._connections.report_closed(held, f"opening it failed ({type(error).__name__})")
            self._connections.forget(held)
            accepted.close()

    def _tls_options(self, tls: Callable[[], ssl.SSLContext] | None) -> dict[str, Any]:
        if tls is None:
            return {}
        return {"ssl": tls(), "ssl_handshake_timeout": self._connections.times.head_s}


def _shut(accepted: socket.socket) -> None:
    """End the handshake or the protocol that reads from a socket."""
    with suppress(OSError):
        accepted.shutdown(socket.SHUT_RDWR)
