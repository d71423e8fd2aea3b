"""Responses whose Content-Length is sent before all bytes are read.

A file may shrink while it is served, and an upstream host may disconnect.  The head has been sent
by then, so the server closes the connection, and clients read again.
"""

import logging
from collections.abc import AsyncIterator, Mapping
from http.client import HTTPException
from typing import Any, Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from trainshed.api.connections import CONNECTION

_log: Final = logging.getLogger(__name__)


class AnnouncedBytes(StreamingResponse):
    """A stream with a Content-Length; the server cuts the connection if there are fewer bytes."""

    def __init__(
        self, pieces: AsyncIterator[Any], status: int, headers: Mapping[str, str], content: str
    ) -> None:
        """``content`` names the bytes in log lines: a gs:// name or a URL."""
        super().__init__(pieces, status, headers)
        self._content = content
        self._fault = ""
        self._is_bodiless = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response; close the connection if not all of its bytes can be read."""
        self._is_bodiless = scope["method"] == "HEAD"
        await super().__call__(scope, receive, send)
        if self._fault:
            _log.warning("cannot serve all of %s: %s", self._content, self._fault)
            await _cut(scope, receive)

    async def stream_response(self, send: Send) -> None:
        """Send the head and the bytes; send the last message only if no byte is missing."""
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        count = 0
        try:
            async for piece in self.body_iterator:
                count += len(piece)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except (OSError, HTTPException) as error:
            self._fault = str(error) or type(error).__name__
            return
        announced = int(self.headers.get("content-length", count))
        if count < announced and not self._is_bodiless:
            self._fault = f"only {count} of {announced} announced bytes could be read"
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _cut(scope: Scope, receive: Receive) -> None:
    """Close the client's connection, and return when it is closed."""
    connection = scope.get("state", {}).get(CONNECTION)
    if connection is not None:
        connection.cut()
        while (await receive())["type"] != "http.disconnect":
            pass
