"""HTTP/1.1 for uvicorn, with a limit on what stands before and between bodies.

httptools has none: whoever connects, token or not, could make the server keep (and, a header's
value being put together piece by piece, copy again and again) as much as he cares to send.
"""

from typing import Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from trainshed.api.documents import TransportRefusal, refusal_response
from trainshed.model.refusals import Code

#: Google's clients send about two kilobytes, with a signed token up to eighteen.
HEAD_BYTES_MAX: Final = 64 << 10

#: What a refused sender may have had under way; with more of it, or later, he is cut off unheard.
LINGER_BYTES_MAX: Final = 1 << 20
LINGER_SECONDS: Final = 2.0


class BoundedHeads(HttpToolsProtocol):
    """Ends connections that send more than ``HEAD_BYTES_MAX`` of head, or of trailers.

    Counted in the pieces that the network gives: a head that comes in one of them is taken.
    """

    _unended = 0
    """Bytes since the last head, piece of a body or message has ended."""
    _refused = False

    def data_received(self, data: bytes) -> None:
        """Count, parse, and refuse what is no end of."""
        self._unended += len(data)
        if self._refused:
            if self._unended > HEAD_BYTES_MAX + LINGER_BYTES_MAX:
                self.transport.close()
            return
        super().data_received(data)
        if self._unended > HEAD_BYTES_MAX and not self.transport.is_closing():
            message = f"the request's head is larger than {HEAD_BYTES_MAX} bytes"
            self.refuse(TransportRefusal(Code.INVALID_ARGUMENT, message, 431))

    def on_headers_complete(self) -> None:
        """A head has ended.  A target that names a host is a proxy's: its Host could be another."""
        self._unended = 0
        if not self.url.startswith((b"/", b"*")):
            raise ValueError("the target is no path")  # becomes ``send_400_response``
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Say in the form of all refusals what cannot be parsed, or is no request of a server."""
        url = getattr(self, "url", b"")
        if url and not url.startswith((b"/", b"*")):
            msg = "The request's target is to be a path, such as /v1/projects, without a host"
        refusal = TransportRefusal(Code.INVALID_ARGUMENT, msg, 400)
        self._write(refusal)
        self.transport.close()

    def on_body(self, body: bytes) -> None:
        """A piece of a body is there; bodies have limits of their own."""
        self._unended = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A message has ended."""
        self._unended = 0
        super().on_message_complete()

    def refuse(self, refusal: TransportRefusal) -> None:
        """Answer what is no whole request, unless another answer has begun, and close."""
        if self.cycle is None or self.cycle.response_complete:
            self._write(refusal)
        elif not self.cycle.response_started:
            self.cycle.disconnected = True  # what the application answers later goes nowhere
            self.cycle.message_event.set()
            self._write(refusal)
        self._linger()

    def _write(self, refusal: TransportRefusal) -> None:
        answer = refusal_response(refusal)
        headers = (b"%s: %s" % pair for pair in answer.raw_headers)
        lines = (*headers, b"connection: close", b"", bytes(answer.body))
        self.transport.write(STATUS_LINE[refusal.http] + b"\r\n".join(lines))

    def _linger(self) -> None:
        """Close once the sender has heard: unread bytes would reset the connection, answer too."""
        self._refused = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)
