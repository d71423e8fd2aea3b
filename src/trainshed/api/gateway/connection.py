"""HTTP/1.1 with the peculiarities of Google's servers, which some clients need.

TensorFlow's file system looks for ``Location`` and ``Range`` in this spelling.  Its uploads have
both a Content-Length and a chunked body (chunked is right then, RFC 9112 6.1), and its requests
without a body say ``Transfer-Encoding: identity``, which RFC 9112 no longer has.  No proxy between
such a client and this listener could interpret these differently.
"""

import re
from asyncio import BaseTransport
from collections.abc import Callable
from typing import Any, Final, cast

from trainshed.api.bounded_heads import HEAD_BYTES_MAX
from trainshed.api.gateway.grpc_bridge import HTTP2, Bridge
from trainshed.api.http_connection import HttpConnection

_HEAD_END: Final = b"\r\n\r\n"
_IDENTITY: Final = re.compile(rb"\r\ntransfer-encoding:[ \t]*identity[ \t]*(?=\r\n)", re.IGNORECASE)
_NAME: Final = re.compile(rb"(?<=\r\n)[a-z0-9-]+(?=:)")
#: Header names that are not capitalised like ``Content-Type``.
_SPELLED: Final = {b"etag": b"ETag", b"x-guploader-uploadid": b"X-GUploader-UploadID"}
_INTERIM: Final = b"HTTP/1.1 100"


class GatewayConnection(HttpConnection):
    """A connection of a replica."""

    _in_head = True
    """Whether the next bytes belong to a head."""
    _begun = b""
    """The beginning of a head."""

    def __init__(self, *args: Any, bridge: Callable[[], Bridge], **named: Any) -> None:
        """Take the arguments of the base class; ``bridge`` takes over connections with HTTP/2."""
        super().__init__(*args, **named)
        self._bridge = bridge
        self.parser.set_dangerous_leniencies(
            lenient_data_after_close=True, lenient_chunked_length=True
        )

    def connection_made(self, transport: BaseTransport) -> None:
        """Keep the connection, or hand it to ``bridge`` if the client speaks HTTP/2."""
        secured = transport.get_extra_info("ssl_object")
        if secured is None or secured.selected_alpn_protocol() != HTTP2:
            super().connection_made(transport)
            return
        bridge = self._bridge()
        cast("Any", transport).set_protocol(bridge)
        bridge.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Collect a head, correct it for the parser, and pass it on whole."""
        if self._in_head:
            self.head_begins()
            self._begun += data
            if _HEAD_END not in self._begun and len(self._begun) <= HEAD_BYTES_MAX:
                return
            head, end, rest = self._begun.partition(_HEAD_END)
            self._begun = b""
            data = _IDENTITY.sub(b"", head + end[:2]) + end[2:] + rest
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """Write the response's header names in Google's spelling."""
        self._in_head = False
        super().on_headers_complete()
        cast("Any", self.cycle).transport = GoogleSpelling(self.transport)

    def on_message_complete(self) -> None:
        """Note that the next bytes are a head."""
        self._in_head = True
        super().on_message_complete()


class GoogleSpelling:
    """A transport for one response, which writes header names in Google's spelling."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.close = transport.close
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Rewrite the head, which comes first and in one piece, after ``100 Continue`` at most."""
        if data.startswith(_INTERIM):
            self._transport.write(data)
            return
        self.write = self._transport.write  # type: ignore[method-assign]  # the body is unchanged
        self._transport.write(_NAME.sub(_spell, data))


def _spell(name: re.Match[bytes]) -> bytes:
    return _SPELLED.get(name[0]) or name[0].title()
