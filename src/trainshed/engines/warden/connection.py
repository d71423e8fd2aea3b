"""The launcher's connection to one warden, and the last reports about its replica."""

from collections.abc import Callable, Iterable, Mapping
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
        self.node = ""
        """The cluster's name of its node; empty: unknown."""
        self.address = ""
        self.prepared: Mapping[str, Any] | None = None
        self.has_started = False
        self.is_empty = False
        """Whether the warden has reported that no process is left; no more output follows."""
        self.is_gone = False
        """Whether the connection is closed, or the command ended before the warden connected."""
        self.unanswered = 0
        """The number of pings in a row that the warden has not answered."""
        self.beat_ns = 0
        """The time of the program's last heartbeat by the clock of its node; 0: none yet."""
        self.usage = Usage()
        self.inlets: dict[int, StreamInput] = {}
        self.on_stacks: Callable[[str], object] | None = None
        """The function to call with the stacks that the warden sends; None: ignore them."""

    def say(self, do: str, **more_fields: Any) -> None:
        """Send an order to the warden, if the warden is connected."""
        if self.channel is not None:
            self.channel.say({"do": do, **more_fields})

    @property
    def node_name(self) -> str:
        """The cluster's name of its node, or else the host name of the node."""
        return self.node or self.host

    @property
    def is_taken(self) -> bool:
        """Whether the replica has its warden, or needs none any more."""
        return self.channel is not None or self.is_gone

    @property
    def is_over(self) -> bool:
        """Whether the warden has no process left, or is gone."""
        return self.is_empty or self.is_gone


def list_nodes(wardens: Iterable[WardenConnection]) -> tuple[str, ...]:
    """List the nodes of the wardens that have connected, each once."""
    return tuple(dict.fromkeys(warden.node for warden in wardens if warden.node))
