"""The launcher's connection to one warden, and the last reports about its replica."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from trainshed.engines.supervise.kernel.limits import Usage
from trainshed.engines.supervise.record.output import StreamInput
from trainshed.engines.warden.beats import Beat
from trainshed.engines.warden.protocol import Channel

if TYPE_CHECKING:
    from trainshed.engines.supervise.record.gpu_file import GpuFigures

#: The maximum age of the readings of GPUs in seconds: then the warden is silent.
_FRESH_S: Final = 30.0


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
        self.usage_at_start = Usage()
        """The first usage that the warden has sent."""
        self.report = b""
        """The last report of its program on its progress; empty: none."""
        self._gpus: Mapping[str, GpuFigures] = {}
        self._gpus_at_s = 0.0
        self.inlets: dict[int, StreamInput] = {}
        self.on_stacks: Callable[[str], object] | None = None
        """The function to call with the stacks that the warden sends; None: ignore them."""

    def say(self, do: str, **more_fields: Any) -> None:
        """Send an order to the warden, if the warden is connected."""
        if self.channel is not None:
            self.channel.say({"do": do, **more_fields})

    def take_beat(self, beat: Beat, now_s: float) -> bool:
        """Store the figures of a heartbeat; return whether its program has shown a new heartbeat.

        ``now_s`` is the present time of a monotonic clock.
        """
        if beat.usage.at_s is not None:  # after the exit there are no more measures
            if self.usage_at_start.at_s is None:
                self.usage_at_start = beat.usage
            self.usage = beat.usage
        self.report = beat.report or self.report
        self._gpus, self._gpus_at_s = beat.gpus, now_s
        if beat.progress_ns is None or beat.progress_ns == self.beat_ns:
            return False
        self.beat_ns = beat.progress_ns
        return True

    def list_gpus(self, now_s: float) -> "Mapping[str, GpuFigures]":
        """Return the readings of its GPUs by UUID; none if the warden is gone or silent."""
        is_fresh = not self.is_over and now_s - self._gpus_at_s <= _FRESH_S
        return self._gpus if is_fresh else {}

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
