"""HTTP/1.1 as Google's servers take and give it, for clients that insist on their ways.

TensorFlow's file system looks for ``Location`` and ``Range`` in this spelling.  Its uploads have
both a Content-Length and a chunked body (chunked is right then, RFC 9112 6.1), and its requests
without a body say ``Transfer-Encoding: identity``, which RFC 9112 has no more.  Nobody stands
between such a client and this listener who could read these in another way.
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
#: Names that are not written like ``Content-Type``.
_SPELLED: Final = {b"etag": b"ETag", b"x-guploader-uploadid": b"X-GUploader-UploadID"}
_INTERIM: Final = b"HTTP/1.1 100"


class GatewayConnection(HttpConnection):
    """One of a replica's."""

    _in_head = True
    """Whether what comes next belongs to a head."""
    _begun = b""
    """The beginning of a head."""

    def __init__(self, *args: Any, bridge: Callable[[], Bridge], **named: Any) -> None:
        """As its base; ``bridge`` takes it over where its client speaks HTTP/2."""
        super().__init__(*args, **named)
        self._bridge = bridge
        self.parser.set_dangerous_leniencies(
            lenient_data_after_close=True, lenient_chunked_length=True
        )

    def connection_made(self, transport: BaseTransport) -> None:
        """Stay, or make room for what speaks HTTP/2."""
        secured = transport.get_extra_info("ssl_object")
        if secured is None or secured.selected_alpn_protocol() != HTTP2:
            super().connection_made(transport)
            return
        bridge = self._bridge()
        cast("Any", transport).set_protocol(bridge)
        bridge.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass on a head whole, as it is to be read."""
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
        """Answer in Google's spelling."""
        self._in_head = False
        super().on_headers_complete()
        cast("Any", self.cycle).transport = GoogleSpelling(self.transport)

    def on_message_complete(self) -> None:
        """The next head begins."""
        self._in_head = True
        super().on_message_complete()


class GoogleSpelling:
    """A transport for one answer, whose header names are written as Google writes them."""

    def __init__(self, transport: Any) -> None:
        """The head has not been written yet."""
        self._transport = transport
        self.close = transport.close
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """The head comes first and in one piece; before it only ``100 Continue``."""
        if data.startswith(_INTERIM):
            self._transport.write(data)
            return
        self.write = self._transport.write  # type: ignore[method-assign]  # no more for what follows
        self._transport.write(_NAME.sub(_spell, data))


def _spell(name: re.Match[bytes]) -> bytes:
    return _SPELLED.get(name[0]) or name[0].title()
