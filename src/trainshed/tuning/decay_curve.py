"""The decay-curve rule: a trial is stopped that is very unlikely to beat the best one (R19).

"Gaussian-process regression on past curves, stop when beating the best is very unlikely"
(contracts/vertex-sdk.md 8).  A curve is the mean of the past ones, plus a constant of its own, plus
a part that decays like a sum of many exponentials (the freeze-thaw kernel of Swersky, Snoek and
Adams, 2014), plus noise; how much of each is the most likely mix for the past curves, from a short
list.  Full regression over all trials at once was turned down: it says little more, and costs a
matrix as large as the study.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from trainshed.model.study import DecayCurveRule, Metric, StudySpec
from trainshed.model.trials import TrialRecord, TrialState
from trainshed.tuning.curves import Curve, curves, ended_by_itself
from trainshed.tuning.ranking import best, upward

Array = NDArray[np.float64]

#: Trials that must have ended by themselves before anything is learned of them.
COMPLETED_MIN: Final = 3
#: Measurements of a trial before it is judged.
MEASUREMENTS_MIN: Final = 3
#: A smaller chance of beating the best is very unlikely.
CHANCE_MIN: Final = 0.01
#: How many past curves are learned from, the latest ones, and at how many places each is looked at.
PAST_MAX: Final = 100
PLACES: Final = 16

#: The mixes that are tried: (constant, decaying part, its half-time, its power, noise); the first,
#: second and last are variances where that of the past curves is 1.
MIXES: Final = np.array(
    tuple(
        product(
            (0.03, 0.1, 0.3, 1.0),
            (0.3, 1.0, 3.0, 10.0),
            (0.03, 0.1, 0.3, 1.0),
            (1.0, 2.0),
            (0.0003, 0.003, 0.03),
        )
    )
)


def stopped_by_decay_curve(
    study: StudySpec, metric: Metric, rule: DecayCurveRule, trials: Sequence[TrialRecord]
) -> Mapping[int, str]:
    """Each ACTIVE trial that the rule stops, and why."""
    leader = best(study, trials)
    done = curves(metric, filter(ended_by_itself, trials), by_time=rule.by_time)
    if leader is None or leader.final is None or len(done) < COMPLETED_MIN:
        return {}
    value = leader.final.value(metric.metric_id) or 0.0
    past = _learned(done[-PAST_MAX:])
    active = (trial for trial in trials if trial.state is TrialState.ACTIVE)
    chances = {
        curve.number: past.chance(curve, upward(metric.goal, value))
        for curve in curves(metric, active, by_time=rule.by_time)
        if len(curve.at) >= MEASUREMENTS_MIN
    }
    return {
        number: f"Its chance to beat {metric.metric_id} {value:.6g} of trial {leader.number} is "
        f"{100 * chance:.2g} %, by the curves of {len(done)} completed trials"
        for number, chance in chances.items()
        if chance < CHANCE_MIN
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Past:
    """What past curves teach; places are shares of the longest one."""

    longest: float
    count: int
    places: Array
    mean: Array
    deviation: float
    mix: Array

    def chance(self, curve: Curve, value: float) -> float:
        """The chance that a curve ends above a value."""
        if curve.best >= value:
            return 1.0
        at, seen = self._standard(curve)
        end = np.array([max(1.0, at[-1])])
        known = _kernel(self.mix, at, at) + self.mix[4] * np.eye(len(at))
        cross = _kernel(self.mix, end, at)[0]
        weights = np.linalg.solve(known, cross)
        variance = _kernel(self.mix, end, end)[0, 0] + self.mix[4] - weights @ cross
        variance *= 1.0 + 1.0 / self.count  # the mean is known from these few curves only
        expected = float(np.interp(end, self.places, self.mean)[0])
        expected += self.deviation * float(weights @ seen)
        spread = self.deviation * math.sqrt(max(float(variance), 1e-12))
        return float(stdtr(self.count - 1, (expected - value) / spread))

    def _standard(self, curve: Curve) -> tuple[Array, Array]:
        """Places and how far a curve is off the mean there; of a long curve not every point."""
        step = np.unique(np.linspace(0, len(curve.at) - 1, PLACES).round().astype(int))
        at = np.array(curve.at)[step] / self.longest
        values = np.array(curve.values)[step]
        return at, (values - np.interp(at, self.places, self.mean)) / self.deviation


@lru_cache(maxsize=8)
def _learned(done: tuple[Curve, ...]) -> _Past:
    """The most likely mix for these curves; one that ended sooner goes on as it ended."""
    longest = max(curve.end for curve in done) or 1.0
    places = np.linspace(1.0 / PLACES, 1.0, PLACES)
    rows = np.array([np.interp(places * longest, each.at, each.values) for each in done])
    mean = rows.mean(axis=0)
    deviation = float(np.sqrt(np.mean((rows - mean) ** 2))) or 1.0
    mix = _likeliest((rows - mean) / deviation, places)
    return _Past(
        longest=longest, count=len(done), places=places, mean=mean, deviation=deviation, mix=mix
    )


def _likeliest(rows: Array, places: Array) -> Array:
    """Of all mixes the one under which the rows, independent of each other, are likeliest."""
    known = np.array([_kernel(mix, places, places) + mix[4] * np.eye(len(places)) for mix in MIXES])
    _, logs = np.linalg.slogdet(known)
    spread = rows.T @ rows / len(rows)
    misfit = np.trace(np.linalg.solve(known, spread[None]), axis1=1, axis2=2)
    best_mix: Array = MIXES[int(np.argmin(logs + misfit))]
    return best_mix


def _kernel(mix: Array, a: Array, b: Array) -> Array:
    """The covariance of one curve at two sets of places, without noise."""
    constant, decaying, half, power, _ = mix
    sums = a[:, None] + b[None, :]
    covariance: Array = constant + decaying * (half / (sums + half)) ** power
    return covariance
