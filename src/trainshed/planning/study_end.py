"""Predicts the end and the cost of a study from its finished trials."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

from trainshed.planning.scaling.prediction import Interval

#: The fewest finished trials for a prediction.
TRIALS_MIN: Final = 3
#: Four fifths of normal values lie within this many standard deviations.
_DEVIATIONS: Final = 1.2816


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySoFar:
    """The progress of a study."""

    lasted_s: tuple[float, ...]
    """The seconds that each finished trial took."""
    running_s: tuple[float, ...] = ()
    """The seconds that each running trial has taken so far."""
    trials_max: int
    parallel: int

    @property
    def left(self) -> int:
        """The number of unfinished trials, including running ones."""
        return max(0, self.trials_max - len(self.lasted_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyEnd:
    left_s: Interval
    """The seconds until the last trial ends."""
    machine_s: Interval
    """The running time of all trials, finished and future ones, in seconds."""


def study_end(study: StudySoFar) -> StudyEnd | None:
    """Predict the end; None while too few trials are finished, and when none is left."""
    if len(study.lasted_s) < TRIALS_MIN or not study.left:
        return None
    at_once = max(1, min(study.parallel, study.left))
    rounds = math.ceil(study.left / at_once)
    per_trial, of_round = _mean(study.lasted_s, study.left), _mean(study.lasted_s, rounds)
    spent = fmean(study.running_s) if study.running_s else 0.0
    return StudyEnd(
        left_s=_less(of_round.times(rounds), min(spent, of_round.point)),
        machine_s=_more(per_trial.times(study.left), sum(study.lasted_s)),
    )


def _mean(lasted_s: Sequence[float], count: int) -> Interval:
    """Return the mean time of the next ``count`` trials, with its 80 % interval."""
    mean = fmean(lasted_s)
    ends = _DEVIATIONS * stdev(lasted_s) * math.sqrt(1 / len(lasted_s) + 1 / count)
    return Interval(low=max(min(lasted_s), mean - ends), point=mean, high=mean + ends)


def _more(value: Interval, shift: float) -> Interval:
    return Interval(low=value.low + shift, point=value.point + shift, high=value.high + shift)


def _less(value: Interval, shift: float) -> Interval:
    low, point, high = (max(0.0, end - shift) for end in (value.low, value.point, value.high))
    return Interval(low=low, point=point, high=high)
