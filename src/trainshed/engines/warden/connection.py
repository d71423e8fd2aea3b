"""The launcher's connection to one warden, and what the warden has reported of its replica."""

from collections.abc import Callable, Mapping
from typing import Any

from trainshed.engines.supervise.kernel.limits import Usage
from trainshed.engines.supervise.record.output import StreamInput
from trainshed.engines.warden.protocol import Channel


class WardenConnection:
    """A warden: its channel, its host, and the state and usage of its replica."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.channel: Channel | None = None
        self.host = ""
        self.address = ""
        self.prepared: Mapping[str, Any] | None = None
        self.has_started = False
        self.is_empty = False
        """Whether the warden has said that no process is left, and so sends no more output."""
        self.is_gone = False
        self.unanswered = 0
        """How many pings in a row the warden has not answered."""
        self.beat_ns = 0
        self.usage = Usage()
        self.inlets: dict[int, StreamInput] = {}
        self.tell: Callable[[str], object] | None = None

    def say(self, do: str, **more: Any) -> None:
        """Send an order to the warden, if it is connected."""
        if self.channel is not None:
            self.channel.say({"do": do, **more})

    @property
    def is_over(self) -> bool:
        return self.is_empty or self.is_gone
