"""Reads from the newest samples of an attempt how far it is and how fast it goes."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
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


def newest_figures(lines: Sequence[UsageLine], now_s: float) -> NewestFigures:
    """Return the figures of the last ``lines`` of an attempt, which are in order.

    Of several replicas that report steps, the slowest counts.
    """
    reports = _last_reports(lines)
    slowest = min(reports, key=lambda task: _last_step(reports[task]), default=None)
    return NewestFigures(
        step=None if slowest is None else _last_step(reports[slowest]),
        total=None if slowest is None else reports[slowest].total,
        step_s=None if slowest is None else _step_s(list(_steps_of(lines, slowest))),
        gpu_use=_gpu_use(lines, now_s),
    )


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


def _steps_of(lines: Sequence[UsageLine], task: str) -> Iterator[tuple[float, int]]:
    """Yield the time and the step at the begin and at the end of each line."""
    for line in lines:
        usage = line.replicas.get(task)
        if usage is not None and usage.step is not None:
            yield line.at - line.s, usage.step[0]
            yield line.at, usage.step[1]


def _step_s(steps: Sequence[tuple[float, int]]) -> float | None:
    """Return the mean time of the newest steps; None while there are none.

    A program that goes back to an earlier step begins again.
    """
    begin = 0
    for index, ((_, before), (_, after)) in enumerate(pairwise(steps), 1):
        if after < before:
            begin = index
    if not steps:
        return None
    (first_s, first), (last_s, last) = steps[begin], steps[-1]
    return (last_s - first_s) / (last - first) if last > first and last_s > first_s else None


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
