"""Reads from the newest samples of an attempt how far it is and how fast it goes.

Readers of many jobs remember ``LineFigures``: a line of 8 GPUs takes ten times as much memory.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trainshed.model.usage import UsageLine

#: An older sample does not say how the attempt does now, in seconds.
SAMPLE_AGE_S_MAX = 300.0


class StepReport(NamedTuple):
    """The steps that one replica reported in the time of a line."""

    first: int
    last: int
    total: int | None


class LineFigures(NamedTuple):
    """What the newest figures need of a line of usage."""

    at: float
    s: float
    reports: Mapping[str, StepReport]
    """The steps by task name."""
    gpu_use: tuple[float, int]
    """The sum of the mean uses of the GPUs, and the number of GPUs that were measured."""
    has_report: bool
    """Whether a program reported its step or another value."""


class NewestFigures(NamedTuple):
    """The newest figures of an attempt; None: not measured or not reported."""

    step: int | None = None
    total: int | None = None
    step_s: float | None = None
    gpu_use: float | None = None
    reported_s: float | None = None
    """The end of the newest sample in which a program reported, in seconds since 1970."""


def summarize_line(line: UsageLine) -> LineFigures:
    """Return what the newest figures need of a line."""
    uses = [gpu.use.mean for gpu in line.gpus.values() if gpu.use is not None]
    reports = {
        task: StepReport(*usage.step, usage.total)
        for task, usage in line.replicas.items()
        if usage.step is not None
    }
    has_report = bool(reports) or any(usage.values for usage in line.replicas.values())
    return LineFigures(line.at, line.s, reports, (sum(uses), len(uses)), has_report)


def newest_figures(lines: Sequence[LineFigures], now_s: float) -> NewestFigures:
    """Return the figures of the last ``lines`` of an attempt, which are in order.

    Of several replicas that report steps, the slowest counts.
    """
    reports = {task: report for line in lines for task, report in line.reports.items()}
    slowest = min(reports, key=lambda task: reports[task].last, default=None)
    return NewestFigures(
        step=None if slowest is None else reports[slowest].last,
        total=None if slowest is None else reports[slowest].total,
        step_s=None if slowest is None else _step_s(lines, slowest),
        gpu_use=_gpu_use(lines, now_s),
        reported_s=max((line.at for line in lines if line.has_report), default=None),
    )


def _step_s(lines: Sequence[LineFigures], task: str) -> float | None:
    """Return the mean time of the newest steps; None while there are none.

    A program that goes back to an earlier step begins again.  A sample is taken at the end of its
    time, so the first step of the first line is somewhere within its time: only a single line
    counts from its begin.
    """
    rows: list[tuple[float, int, float, int]] = []
    for line in lines:
        report = line.reports.get(task)
        if report is None:
            continue
        if report.last < report.first or (rows and report.first < rows[-1][3]):
            rows.clear()
        rows.append((line.at - line.s, report.first, line.at, report.last))
    if not rows:
        return None
    begin_s, first = rows[0][2:] if len(rows) > 1 else rows[0][:2]
    end_s, last = rows[-1][2:]
    return (end_s - begin_s) / (last - first) if last > first and end_s > begin_s else None


def _gpu_use(lines: Sequence[LineFigures], now_s: float) -> float | None:
    """Return the mean use of all GPUs in the newest sample; None if it is old or has none."""
    newest_s = lines[-1].at if lines else 0.0
    if now_s - newest_s > SAMPLE_AGE_S_MAX:
        return None
    uses = [line.gpu_use for line in lines if line.at == newest_s]
    count = sum(gpus for _, gpus in uses)
    return sum(use for use, _ in uses) / count if count else None
