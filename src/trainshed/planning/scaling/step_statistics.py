"""Statistics of a run's steps: medians without the warm-up, and their uncertainty."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from trainshed.model.step_times import StepTimes

#: Half a 95 % interval of a median, in standard errors of a mean of normal values.
_OF_MEDIAN = 1.96 * 1.2533
_P10_TO_P90 = 2.563
#: A step that took longer than this many times the median counts as this many.
_ACCIDENT = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatistics:
    """Statistics of the steps of a run after the warm-up."""

    steps: int
    """The number of steady steps."""
    warm_up: int
    """The number of warm-up steps before them."""
    step_s: float
    """The median of the steady steps, in seconds."""
    p10_s: float
    p90_s: float
    wait_share: float
    """The share of the steps' time spent waiting for input."""

    @property
    def uncertainty(self) -> float:
        """Half the 95 % interval of the median, as a share of the median."""
        spread = (self.p90_s - self.p10_s) / _P10_TO_P90
        return _OF_MEDIAN * spread / math.sqrt(self.steps) / self.step_s


def summarize_times(times: StepTimes) -> StepStatistics | None:
    """Compute the statistics of a report; None if it has no timed step."""
    if times.steps <= len(times.first_s):
        return summarize_steps(times.first_s, times.first_waits_s)
    return summarize_steps(times.recent_s, times.recent_waits_s)


def summarize_steps(
    step_s: Sequence[float], waits_s: Sequence[float] = ()
) -> StepStatistics | None:
    """Compute the statistics of steps in the order of time; None without steps."""
    if not step_s:
        return None
    warm_up_steps = warm_up(step_s)
    steady = step_s[warm_up_steps:]
    ordered = sorted(steady)
    return StepStatistics(
        steps=len(steady),
        warm_up=warm_up_steps,
        step_s=max(_quantile(ordered, 0.5), 1e-9),
        p10_s=_quantile(ordered, 0.1),
        p90_s=_quantile(ordered, 0.9),
        wait_share=min(1.0, sum(waits_s[warm_up_steps:]) / max(sum(steady), 1e-9)),
    )


def warm_up(step_s: Sequence[float]) -> int:
    """Return how many of the first steps are warm-up, at most half of all steps.

    Compilers and libraries choose their kernels in early steps, which are therefore slower.  The
    rule is MSER (marginal standard error): the warm-up ends where the mean of the later steps is
    most certain.  It works for any number of levels and has no constant.
    """
    logs = _logs(step_s)
    best, least = 0, math.inf
    total = squares = 0.0
    for count, value in enumerate(reversed(logs), start=1):
        total += value
        squares += value * value
        start = len(logs) - count
        error = max(0.0, squares - total * total / count) / (count * count)
        if start <= len(logs) // 2 and error <= least:
            best, least = start, error
    return best


def _logs(step_s: Sequence[float]) -> list[float]:
    later = [one for one in step_s[len(step_s) // 2 :] if one > 0]
    if not later:
        return [0.0] * len(step_s)
    usual = median(later)
    return [math.log(min(max(one, usual / _ACCIDENT), usual * _ACCIDENT)) for one in step_s]


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Interpolate linearly between neighbouring values."""
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])
