"""Passes bytes between two connections of one event loop."""

import asyncio
from typing import Any


class RelayEnd(asyncio.Protocol):
    """One end of a relay; writes incoming bytes to the other end, with backpressure."""

    def __init__(self, other: "RelayEnd | None" = None) -> None:
        """``other`` is the other end; without it, received bytes are dropped."""
        self.transport: Any = None
        self.other = other

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        """Pause reading at the other end."""
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Resume reading at the other end."""
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the other end."""
        del exc
        if self.other is not None:
            self.other.transport.close()
