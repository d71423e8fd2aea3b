"""An HTTP connection that reports the part it waits for; the server closes slow ones."""

import logging
import math
from asyncio import BaseTransport
from typing import Any, Final, cast

from trainshed.api.bounded_heads import BoundedHeads
from trainshed.api.connections import CONNECTION, Connection, Connections, ConnectionWait
from trainshed.api.documents import TransportRefusal
from trainshed.model.refusals import Code

_REQUEST_TIMEOUT: Final = 408

#: Logs failures of the application only; uvicorn would log each bad request.
_failures: Final = logging.getLogger("uvicorn.error.requests")
_failures.setLevel(logging.ERROR)


class HttpConnection(BoundedHeads):
    """Keeps its entry in ``Connections`` up to date."""

    def __init__(self, connection: Connection, connections: Connections, **options: Any) -> None:
        """``options`` are uvicorn's arguments of a protocol."""
        super().__init__(**options | {"app_state": {CONNECTION: connection}})
        self.logger = _failures
        self._connection = connection
        self._connections = connections
        self._times = connections.times
        self._clock = connections.clock

    def connection_made(self, transport: BaseTransport) -> None:
        """Note that the connection is open, after a TLS handshake if any."""
        super().connection_made(cast("Any", transport))
        self._connection.cut, self._connection.late = self.transport.abort, self._refuse_late
        self._connection.is_paused = lambda: self.flow.read_paused

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection has ended."""
        self._connections.forget(self._connection)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Note that the head of a request begins or continues."""
        self.head_begins()
        super().data_received(data)

    def head_begins(self) -> None:
        """Bound the time for the rest of the head."""
        if self._connection.waits is ConnectionWait.NEXT:
            self._wait(ConnectionWait.HEAD, self._times.head_s)

    def on_headers_complete(self) -> None:
        """Wait for the body."""
        self._wait(ConnectionWait.BODY, self._times.body_s)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Extend the deadline by the size of the piece, at most to the full time for a body."""
        extended = self._connection.due + len(body) / self._times.body_bytes_per_s
        self._connection.due = min(extended, self._clock() + self._times.body_s)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the request is complete."""
        is_answered = self.cycle is not None and self.cycle.response_complete
        # answered before the request's end: uvicorn has stopped its timer for the next request
        self._wait(
            *(ConnectionWait.HEAD, self._times.head_s)
            if is_answered
            else (ConnectionWait.ANSWER, math.inf)
        )
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of a body that is still arriving."""
        is_authenticated = self._connection.authenticated
        seconds = self._times.keep_alive_s if is_authenticated else self._times.head_s
        self.timeout_keep_alive = seconds  # type: ignore[assignment]  # passed to call_later
        if self._connection.waits is ConnectionWait.ANSWER and not self.pipeline:
            self._wait(
                ConnectionWait.HEAD if self._unfinished_bytes else ConnectionWait.NEXT,
                self._times.head_s,
            )
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Report that the client did not send HTTP/1.1."""
        self._connections.report_closed(
            self._connection, "the client did not send an HTTP/1.1 request"
        )
        super().send_400_response(msg)

    def _wait(self, waits: ConnectionWait, seconds: float) -> None:
        self._connection.waits = waits
        self._connection.due = math.inf if waits is ConnectionWait.NEXT else self._clock() + seconds

    def _refuse_late(self) -> None:
        what = "head" if self._connection.waits is ConnectionWait.HEAD else "body"
        message = f"the request's {what} arrived too slowly"
        self.refuse(TransportRefusal(Code.UNAVAILABLE, message, _REQUEST_TIMEOUT))
