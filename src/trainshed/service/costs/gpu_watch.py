"""Adds up how long the GPUs of all nodes were in which state."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from trainshed.planning.gpu_days import count_states, divide_time
from trainshed.service.nodes.node_gpus import count_held
from trainshed.store import codec
from trainshed.store.opening import Store
from trainshed.store.records.nodes import NodeRow
from trainshed.store.usage import GpuDayKey

_NS_PER_S: Final = 1_000_000_000
#: A node that its engine has not reported for so many seconds is unobserved.
_SEEN_S_MAX: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWatch:
    """Writes the seconds of GPUs by day, node, type and state."""

    store: Store
    leads: Callable[[], bool]
    """Whether this server holds the scheduler's lease."""

    def look(self) -> None:
        """Add the time since the last look of any server.  Raises StoreFault."""
        if not self.leads():
            return
        before_ns, now = self.store.gpu_look_ns(), self.store.now()
        until_ns = codec.to_ns(now)
        seconds: dict[GpuDayKey, float] = {}
        if before_ns is not None:
            held = count_held(self.store.holding())
            for row in self.store.nodes():
                seconds |= _divide(row, held, before_ns / _NS_PER_S, now.timestamp())
        self.store.add_gpu_seconds(seconds, before_ns=before_ns, until_ns=until_ns)


def _divide(
    row: NodeRow, held: Mapping[tuple[str, str], int], begin_s: float, end_s: float
) -> Mapping[GpuDayKey, float]:
    """Return the seconds of the GPUs of a node between two looks."""
    node = row.node
    jobs_hold = held.get((row.engine, node.name), 0) + held.get(("", node.name), 0)
    is_fresh = end_s - row.seen_time.timestamp() <= _SEEN_S_MAX
    return {
        (day, row.engine, node.name, gpu_type, state): seconds
        for gpu_type, counts in count_states(node, jobs_hold).items()
        for (day, state), seconds in divide_time(
            begin_s, end_s, counts if is_fresh else {"unobserved": sum(counts.values())}
        ).items()
    }
