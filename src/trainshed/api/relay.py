"""Passes bytes between two connections of one event loop."""

import asyncio
from typing import Any


class RelayEnd(asyncio.Protocol):
    """One end; what comes is written at the other, no faster than that is read."""

    def __init__(self, other: "RelayEnd | None" = None) -> None:
        """Without ``other`` nothing is passed on yet."""
        self.transport: Any = None
        self.other = other

    def connection_made(self, transport: Any) -> None:
        """Note the transport."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        if self.other is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        """Read no more at the other end."""
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Read on at the other end."""
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the other end."""
        del exc
        if self.other is not None:
            self.other.transport.close()
