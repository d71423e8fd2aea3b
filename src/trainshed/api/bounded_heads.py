"""HTTP/1.1 for uvicorn, with a limit on the size of heads and trailers.

httptools has no limit: any client, with or without a token, could make the server store an
arbitrary amount, and copy it repeatedly, because a header's value is joined piece by piece.
"""

from typing import Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from trainshed.api.documents import TransportRefusal, refusal_response
from trainshed.model.refusals import Code

#: Google's clients send about two kilobytes, with a signed token up to eighteen.
HEAD_BYTES_MAX: Final = 64 << 10

#: Bytes read from a refused client before the server closes the connection.
LINGER_BYTES_MAX: Final = 1 << 20
LINGER_SECONDS: Final = 2.0


class BoundedHeads(HttpToolsProtocol):
    """Ends connections that send more than ``HEAD_BYTES_MAX`` of head, or of trailers.

    The size is checked after each read, so a larger head that arrives in one read is accepted.
    """

    _unfinished_bytes = 0
    """Bytes received since the last complete head, piece of a body, or message."""
    _refused = False

    def data_received(self, data: bytes) -> None:
        """Count and parse received bytes; refuse a head that is too large."""
        self._unfinished_bytes += len(data)
        if self._refused:
            if self._unfinished_bytes > HEAD_BYTES_MAX + LINGER_BYTES_MAX:
                self.transport.close()
            return
        super().data_received(data)
        if self._unfinished_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            message = f"the request's head is larger than {HEAD_BYTES_MAX} bytes"
            self.refuse(TransportRefusal(Code.INVALID_ARGUMENT, message, 431))

    def on_headers_complete(self) -> None:
        """Accept a head; refuse a target with a host, which could differ from the Host header."""
        self._unfinished_bytes = 0
        if not self.url.startswith((b"/", b"*")):
            raise ValueError("the target is not a path")  # becomes ``send_400_response``
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that cannot be parsed, or that is meant for a proxy."""
        url = getattr(self, "url", b"")
        if url and not url.startswith((b"/", b"*")):
            msg = "The request's target must be a path, such as /v1/projects, without a host"
        refusal = TransportRefusal(Code.INVALID_ARGUMENT, msg, 400)
        self._write(refusal)
        self.transport.close()

    def on_body(self, body: bytes) -> None:
        """Reset the count: bodies have limits of their own."""
        self._unfinished_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unfinished_bytes = 0
        super().on_message_complete()

    def refuse(self, refusal: TransportRefusal) -> None:
        """Refuse an incomplete request, unless a response has begun, and close."""
        if self.cycle is None or self.cycle.response_complete:
            self._write(refusal)
        elif not self.cycle.response_started:
            self.cycle.disconnected = True  # a later response of the application is dropped
            self.cycle.message_event.set()
            self._write(refusal)
        self._linger()

    def _write(self, refusal: TransportRefusal) -> None:
        answer = refusal_response(refusal)
        headers = (b"%s: %s" % pair for pair in answer.raw_headers)
        lines = (*headers, b"connection: close", b"", bytes(answer.body))
        self.transport.write(STATUS_LINE[refusal.http] + b"\r\n".join(lines))

    def _linger(self) -> None:
        """Close after a delay: closing with unread bytes would reset the connection at once."""
        self._refused = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)
