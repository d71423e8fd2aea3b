"""Reads from the newest samples of an attempt how far it is and how fast it goes."""

from collections.abc import Sequence
from typing import NamedTuple

from trainshed.model.usage import ReplicaUsage, UsageLine

#: An older sample does not say how the attempt does now, in seconds.
SAMPLE_AGE_S_MAX = 300.0


class NewestFigures(NamedTuple):
    """The newest figures of an attempt; None: not measured or not reported."""

    step: int | None = None
    total: int | None = None
    step_s: float | None = None
    gpu_use: float | None = None
    reported_s: float | None = None
    """The end of the newest sample in which a program reported, in seconds since 1970."""


def newest_figures(lines: Sequence[UsageLine], now_s: float) -> NewestFigures:
    """Return the figures of the last ``lines`` of an attempt, which are in order.

    Of several replicas that report steps, the slowest counts.
    """
    reports = _last_reports(lines)
    slowest = min(reports, key=lambda task: _last_step(reports[task]), default=None)
    return NewestFigures(
        step=None if slowest is None else _last_step(reports[slowest]),
        total=None if slowest is None else reports[slowest].total,
        step_s=None if slowest is None else _step_s(lines, slowest),
        gpu_use=_gpu_use(lines, now_s),
        reported_s=max(
            (line.at for line in lines if any(map(_has_report, line.replicas.values()))),
            default=None,
        ),
    )


def _has_report(usage: ReplicaUsage) -> bool:
    return usage.step is not None or bool(usage.values)


def _last_reports(lines: Sequence[UsageLine]) -> dict[str, ReplicaUsage]:
    """Return the newest usage with a step of each task."""
    return {
        task: usage
        for line in lines
        for task, usage in line.replicas.items()
        if usage.step is not None
    }


def _last_step(usage: ReplicaUsage) -> int:
    return usage.step[1] if usage.step else 0


def _step_s(lines: Sequence[UsageLine], task: str) -> float | None:
    """Return the mean time of the newest steps; None while there are none.

    A program that goes back to an earlier step begins again.  A sample is taken at the end of its
    time, so the first step of the first line is somewhere within its time: only a single line
    counts from its begin.
    """
    rows: list[tuple[float, int, float, int]] = []
    for line in lines:
        usage = line.replicas.get(task)
        if usage is None or usage.step is None:
            continue
        first, last = usage.step
        if last < first or (rows and first < rows[-1][3]):
            rows.clear()
        rows.append((line.at - line.s, first, line.at, last))
    if not rows:
        return None
    begin_s, first = rows[0][2:] if len(rows) > 1 else rows[0][:2]
    end_s, last = rows[-1][2:]
    return (end_s - begin_s) / (last - first) if last > first and end_s > begin_s else None


def _gpu_use(lines: Sequence[UsageLine], now_s: float) -> float | None:
    """Return the mean use of all GPUs in the newest sample; None if it is old or has none."""
    newest_s = lines[-1].at if lines else 0.0
    if now_s - newest_s > SAMPLE_AGE_S_MAX:
        return None
    uses = [
        gpu.use.mean
        for line in lines
        if line.at == newest_s
        for gpu in line.gpus.values()
        if gpu.use is not None
    ]
    return sum(uses) / len(uses) if uses else None
