"""The samples of an attempt's usage as columns of numbers, for curves.

Columns, because tuples for all points of a day take longer than to parse its lines.  Only servers
draw curves, so supervisors do not import this.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Final, NamedTuple

from trainshed.model.usage import GPU_SPREADS, REPLICA_SPREADS, ReplicaUsage, Spread, UsageLine

#: The units of the series by name; the values that a trainer reports have no unit.
UNITS: Final[Mapping[str, str]] = {
    "cpu": "cores",
    "memory": "bytes",
    "read": "bytes/s",
    "written": "bytes/s",
    "processes": "",
    "step": "",
    "gpu_use": "ratio",
    "gpu_memory": "bytes",
    "gpu_power": "W",
    "gpu_temperature": "C",
}
_GPU_NAMES: Final = tuple(f"gpu_{name}" for name in GPU_SPREADS)
_read_replica: Final = attrgetter(*REPLICA_SPREADS)
_read_gpu: Final = attrgetter(*GPU_SPREADS)

#: A key of ``UNITS``, the task of a replica or "", and the UUID of a GPU or "".
SeriesKey = tuple[str, str, str]


class SampleColumns(NamedTuple):
    """The samples of one curve in the order of their times."""

    at: list[float]
    """The end of each sample, in seconds since 1970."""
    spreads: list[Spread]
    steps: list[int | None]
    """The last step of each sample, None if it was not reported; empty: there are no steps."""

    @classmethod
    def make_empty(cls) -> "SampleColumns":
        return cls([], [], [])

    def add(self, at: float, spread: Spread) -> None:
        """Add a sample of a curve without steps."""
        self.at.append(at)
        self.spreads.append(spread)


class UsageColumns:
    """The samples of all curves of an attempt; what was not measured has none."""

    def __init__(self, lines: Iterable[UsageLine]) -> None:
        """Read the samples in ``lines``."""
        self.usage: dict[SeriesKey, SampleColumns] = defaultdict(SampleColumns.make_empty)
        """Those of replicas and GPUs."""
        self.values: dict[tuple[str, str], SampleColumns] = defaultdict(SampleColumns.make_empty)
        """What programs reported, by name and task."""
        for line in lines:
            for task, replica in line.replicas.items():
                self._add_replica(task, replica, line.at)
            for uuid, gpu in line.gpus.items():
                for name, spread in zip(_GPU_NAMES, _read_gpu(gpu), strict=True):
                    if spread is not None:
                        self.usage[name, "", uuid].add(line.at, spread)

    def _add_replica(self, task: str, replica: ReplicaUsage, at: float) -> None:
        for name, spread in zip(REPLICA_SPREADS, _read_replica(replica), strict=True):
            if spread is not None:
                self.usage[name, task, ""].add(at, spread)
        last = None
        if replica.step is not None:
            first, last = replica.step
            self.usage["step", task, ""].add(at, Spread(min(first, last), last, max(first, last)))
        for name, spread in replica.values.items():
            columns = self.values[name, task]
            columns.add(at, spread)
            columns.steps.append(last)
