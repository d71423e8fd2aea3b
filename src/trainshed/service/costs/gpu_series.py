"""Makes the time and energy of single GPUs from the lines of an attempt's usage."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from trainshed.model.usage import GpuUsage, UsageLine
from trainshed.planning.machine_parts import GpuSeries
from trainshed.planning.usage_days import GpuMeasurement, day_of

#: Seconds between two lines that are joined: their times are rounded.
_JOIN_S: Final = 1.0


def measure_gpus(lines: Iterable[UsageLine], skew_s: float = 0.0) -> Mapping[str, GpuSeries]:
    """Return the idle time and the energy of an attempt's GPUs, by UUID.

    A GPU is idle in a line in which it ran no kernel; one whose use is not measured is not.  Lines
    of one day that follow each other are joined if the GPU is idle in all or in none of them.
    ``lines`` are in order; ``skew_s`` is by how much their clock is ahead.
    """
    series: dict[str, list[GpuMeasurement]] = {}
    tasks: dict[str, str] = {}
    for line in lines:
        for uuid, usage in line.gpus.items():
            parts = series.setdefault(uuid, [])
            tasks[uuid] = usage.task or ""
            part = _measure(line, usage, skew_s)
            if parts and _can_join(parts[-1], part):
                parts[-1] = _join(parts[-1], part)
            else:
                parts.append(part)
    return {uuid: GpuSeries(parts, tasks[uuid]) for uuid, parts in series.items()}


def _measure(line: UsageLine, usage: GpuUsage, skew_s: float) -> GpuMeasurement:
    is_idle = usage.use is not None and usage.use.high <= 0
    return GpuMeasurement(
        begin_s=line.at - line.s - skew_s,
        end_s=line.at - skew_s,
        idle_s=line.s * is_idle,
        energy_j=usage.energy_j,
    )


def _can_join(part: GpuMeasurement, later: GpuMeasurement) -> bool:
    return (
        (part.idle_s > 0) == (later.idle_s > 0)
        and abs(later.begin_s - part.end_s) <= _JOIN_S
        and day_of(part.begin_s) == day_of(later.end_s)
    )


def _join(part: GpuMeasurement, later: GpuMeasurement) -> GpuMeasurement:
    joules: Sequence[float] = [
        value for value in (part.energy_j, later.energy_j) if value is not None
    ]
    end_s = max(part.end_s, later.end_s)
    return replace(
        part,
        end_s=end_s,
        idle_s=end_s - part.begin_s if part.idle_s else 0.0,
        energy_j=sum(joules) if joules else None,
    )
