"""One HTTP connection that tells what it waits for, so that no client may take for ever."""

import logging
import math
from asyncio import BaseTransport
from typing import Any, Final, cast

from trainshed.api.bounded_heads import BoundedHeads
from trainshed.api.connections import CONNECTION, Connection, Connections, ConnectionWait
from trainshed.api.documents import TransportRefusal
from trainshed.model.refusals import Code

_REQUEST_TIMEOUT: Final = 408

#: Failures of the application; of each bad request uvicorn would write a line of its own.
_failures: Final = logging.getLogger("uvicorn.error.requests")
_failures.setLevel(logging.ERROR)


class HttpConnection(BoundedHeads):
    """Keeps its entry among all connections true."""

    def __init__(self, held: Connection, everyone: Connections, **options: Any) -> None:
        """``options`` is what uvicorn gives to a protocol."""
        super().__init__(**options | {"app_state": {CONNECTION: held}})
        self.logger = _failures
        self._held = held
        self._everyone = everyone
        self._times = everyone.times
        self._clock = everyone.clock

    def connection_made(self, transport: BaseTransport) -> None:
        """It is open; with TLS its handshake is over."""
        super().connection_made(cast("Any", transport))
        self._held.cut, self._held.late = self.transport.abort, self._refuse_late
        self._held.is_paused = lambda: self.flow.read_paused

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        self._everyone.forget(self._held)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A head begins, or goes on."""
        self.head_begins()
        super().data_received(data)

    def head_begins(self) -> None:
        """From now on its client has a bounded time for the rest."""
        if self._held.waits is ConnectionWait.NEXT:
            self._wait(ConnectionWait.HEAD, self._times.head_s)

    def on_headers_complete(self) -> None:
        """The body is next."""
        self._wait(ConnectionWait.BODY, self._times.body_s)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Each piece buys time, but never more than there was at first."""
        bought = self._held.due + len(body) / self._times.body_bytes_per_s
        self._held.due = min(bought, self._clock() + self._times.body_s)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        is_answered = self.cycle is not None and self.cycle.response_complete
        # answered before its end: uvicorn has stopped the time for the next request by now
        self._wait(
            *(ConnectionWait.HEAD, self._times.head_s)
            if is_answered
            else (ConnectionWait.ANSWER, math.inf)
        )
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The next request may come; one whose body is still on its way may end it."""
        is_authenticated = self._held.authenticated
        seconds = self._times.keep_alive_s if is_authenticated else self._times.head_s
        self.timeout_keep_alive = seconds  # type: ignore[assignment]  # it goes to call_later
        if self._held.waits is ConnectionWait.ANSWER and not self.pipeline:
            self._wait(
                ConnectionWait.HEAD if self._unended else ConnectionWait.NEXT, self._times.head_s
            )
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """It is no HTTP that came."""
        self._everyone.report_closed(self._held, "what came is no request of HTTP/1.1")
        super().send_400_response(msg)

    def _wait(self, waits: ConnectionWait, seconds: float) -> None:
        self._held.waits = waits
        self._held.due = math.inf if waits is ConnectionWait.NEXT else self._clock() + seconds

    def _refuse_late(self) -> None:
        what = "head" if self._held.waits is ConnectionWait.HEAD else "body"
        message = f"the request's {what} came too slowly"
        self.refuse(TransportRefusal(Code.UNAVAILABLE, message, _REQUEST_TIMEOUT))
