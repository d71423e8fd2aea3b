"""The curves of an attempt's usage: its lines as series of points, for people.

Only servers draw curves, so supervisors do not import this.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from trainshed.model.usage import GPU_SPREADS, REPLICA_SPREADS, Spread, UsageLine

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


class UsagePoint(NamedTuple):
    """The samples of one series that make one point of a curve."""

    at: float
    """The time of the last sample, in seconds since 1970."""
    low: float
    mean: float
    high: float


class UsageSeries(NamedTuple):
    """One curve: a quantity of a replica or of a GPU over time."""

    name: str
    """A key of ``UNITS``."""
    unit: str
    task: str
    """The task name of the replica; empty for a series of a GPU."""
    gpu: str
    """The UUID of the GPU; empty for a series of a replica."""
    points: tuple[UsagePoint, ...]


def list_series(lines: Sequence[UsageLine]) -> list[UsageSeries]:
    """List the series of replicas and GPUs in ``lines``; values that a program reported excluded.

    The points of ``step`` have the first and the last step of their line.
    """
    points: dict[tuple[str, str, str], list[UsagePoint]] = {}
    for line in lines:
        for task, replica in line.replicas.items():
            for name in REPLICA_SPREADS:
                _add_point(points, (name, task, ""), line.at, getattr(replica, name))
            if replica.step is not None:
                first, last = replica.step
                spread = Spread(min(first, last), last, max(first, last))
                _add_point(points, ("step", task, ""), line.at, spread)
        for uuid, gpu in line.gpus.items():
            for name in GPU_SPREADS:
                _add_point(points, (f"gpu_{name}", "", uuid), line.at, getattr(gpu, name))
    return [
        UsageSeries(name, UNITS[name], task, gpu, tuple(series))
        for (name, task, gpu), series in points.items()
    ]


def _add_point(
    points: dict[tuple[str, str, str], list[UsagePoint]],
    key: tuple[str, str, str],
    at: float,
    spread: Spread | None,
) -> None:
    if spread is not None:
        points.setdefault(key, []).append(UsagePoint(at, *spread))


def downsample(points: Sequence[UsagePoint], points_max: int) -> Sequence[UsagePoint]:
    """Return at most ``points_max`` points, at least 1; the least and greatest values stay."""
    count = len(points)
    if count <= points_max:
        return points
    ends = [count * number // points_max for number in range(points_max + 1)]
    return [_merge_points(points[start:end]) for start, end in zip(ends, ends[1:])]


def _merge_points(points: Sequence[UsagePoint]) -> UsagePoint:
    return UsagePoint(
        points[-1].at,
        min(point.low for point in points),
        sum(point.mean / len(points) for point in points),
        max(point.high for point in points),
    )
