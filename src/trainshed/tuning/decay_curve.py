"""The decay-curve rule: stops a trial that is very unlikely to beat the best one.

A Gaussian process predicts the final value from past curves and from the trial's own measurements
(docs/sources/vertex.md 8).  A curve is the mean of the past ones, plus a constant of its own, plus
a part that decays like a sum of many exponentials (the freeze-thaw kernel of Swersky, Snoek and
Adams, 2014), plus noise; the weights are the most likely mix for the past curves, from a short
list.  Full regression over all trials at once was rejected: it gives little more information, and
needs a matrix as large as the study.  Studies of search rule 1 also judge measurements before the
first place of the past curves.

The rule uses the distance of values to the best one, on a scale that is logarithmic far from it and
linear near it; the width of the linear part is also the most likely one for the past curves.  Bad
curves often differ much and good ones little, and a trial has to beat the good ones (decision 0024
has the figures).
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from trainshed.model.study import DecayCurveRule, Metric, StudySpec
from trainshed.model.trials import EarlyStop, TrialRecord, TrialState
from trainshed.tuning.curves import TrialCurve, curves, ended_by_itself
from trainshed.tuning.ranking import best, upward

Array = NDArray[np.float64]

#: The minimum of trials that ended by themselves for the rule to apply.
COMPLETED_MIN: Final = 3
#: The minimum of measurements before the rule checks a trial.
MEASUREMENTS_MIN: Final = 3
#: The rule stops a trial with a smaller chance to beat the best one.
CHANCE_MIN: Final = 0.01
#: The number of past curves that are used, the latest ones, and of the places of each.
PAST_MAX: Final = 100
PLACES: Final = 16

_PLACES: Final = np.linspace(1.0 / PLACES, 1.0, PLACES)

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
#: The scales that are tried: the width of their linear part, in deviations of the ends.
NEARS: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 1e6)


def stopped_by_decay_curve(
    study: StudySpec, metric: Metric, rule: DecayCurveRule, trials: Sequence[TrialRecord]
) -> Mapping[int, EarlyStop]:
    """Return each ACTIVE trial that the rule stops, and why."""
    leader = best(study, trials)
    done = curves(metric, filter(ended_by_itself, trials), by_time=rule.by_time)[-PAST_MAX:]
    if leader is None or leader.final is None or len(done) < COMPLETED_MIN:
        return {}
    value = leader.final.value(metric.metric_id) or 0.0
    past = _learn(done, upward(metric.goal, value))
    active = (trial for trial in trials if trial.state is TrialState.ACTIVE)
    begin = past.longest / PLACES if study.search_rule >= 2 else 0.0  # noqa: PLR2004
    chances = {
        curve: past.chance(curve, begin)
        for curve in curves(metric, active, by_time=rule.by_time)
        if len(curve.at) >= MEASUREMENTS_MIN and curve.end >= begin
    }
    return {
        curve.number: EarlyStop(
            rule=rule.rule,
            metric=metric.metric_id,
            value=chance,
            bar=CHANCE_MIN,
            at=curve.end,
            by_time=rule.by_time,
            reason=f"Its chance to beat {metric.metric_id} {value:.6g} of trial {leader.number} "
            f"is {100 * chance:.2g} %, by the curves of {len(done)} completed trials",
        )
        for curve, chance in chances.items()
        if chance < CHANCE_MIN
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """A scale for signed distances to the best value, which is 0 on the scale."""

    top: float
    near: float

    def transform(self, values: Array) -> Array:
        """Return the values on this scale."""
        transformed: Array = np.arcsinh((values - self.top) / self.near)
        return transformed

    def log_derivatives(self, values: Array) -> float:
        """Return the sum of the log-derivatives of the scale at the values."""
        return -float(np.log(np.hypot(values - self.top, self.near)).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """The best mix on one scale, and the log-likelihood of the past curves with it."""

    scale: _Scale
    mean: Array
    deviation: float
    mix: Array
    likelihood: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Past:
    """The fit of past curves; places are shares of the longest curve."""

    longest: float
    count: int
    fit: _Fit

    def chance(self, curve: TrialCurve, begin: float) -> float:
        """Return the chance that a curve ends above the best value.

        Measurements before ``begin`` are left out.  The past has no mean before its first place:
        measured by the mean there, every curve begins far too low.
        """
        if curve.best >= self.fit.scale.top:
            return 1.0
        mix, deviation = self.fit.mix, self.fit.deviation
        at, residuals = self._standard(_cut(curve, begin))
        end = np.array([max(1.0, at[-1])])
        cross = _kernel(mix, end, at)[0]
        weights = np.linalg.solve(_covariance(mix, at), cross)
        variance = _covariance(mix, end)[0, 0] - weights @ cross
        variance *= 1.0 + 1.0 / self.count  # the mean comes from these few curves only
        expected = float(np.interp(end, _PLACES, self.fit.mean)[0])
        expected += deviation * float(weights @ residuals)
        spread = deviation * math.sqrt(max(float(variance), 1e-12))
        return float(stdtr(self.count - 1, expected / spread))

    def _standard(self, curve: TrialCurve) -> tuple[Array, Array]:
        """Return a curve's places and its deviations from the mean; long curves are thinned out."""
        step = np.unique(np.linspace(0, len(curve.at) - 1, PLACES).round().astype(int))
        at = np.array(curve.at)[step] / self.longest
        values = self.fit.scale.transform(np.array(curve.values)[step])
        return at, (values - np.interp(at, _PLACES, self.fit.mean)) / self.fit.deviation


def _cut(curve: TrialCurve, begin: float) -> TrialCurve:
    """Return the part of a curve from a step or second on."""
    first = bisect_left(curve.at, begin)
    return replace(curve, at=curve.at[first:], values=curve.values[first:])


@lru_cache(maxsize=8)
def _learn(done: tuple[TrialCurve, ...], top: float) -> _Past:
    """Return the most likely scale and mix; shorter curves continue with their last value."""
    longest = max(curve.end for curve in done) or 1.0
    rows = np.array([np.interp(_PLACES * longest, curve.at, curve.values) for curve in done])
    unit = float(np.std(rows[:, -1])) or 1.0
    fits = [_fit(rows, _Scale(top=top, near=near * unit)) for near in NEARS]
    return _Past(longest=longest, count=len(done), fit=max(fits, key=lambda fit: fit.likelihood))


def _fit(rows: Array, scale: _Scale) -> _Fit:
    transformed = scale.transform(rows)
    mean = transformed.mean(axis=0)
    deviation = float(np.sqrt(np.mean((transformed - mean) ** 2))) or 1.0
    standard = (transformed - mean) / deviation
    inverses, logs = _mixes()
    misfit = np.einsum("mij,ij->m", inverses, standard.T @ standard / len(rows))
    at = int(np.argmin(logs + misfit))
    likelihood = -0.5 * len(rows) * float(logs[at] + misfit[at]) - rows.size * math.log(deviation)
    return _Fit(
        scale=scale,
        mean=mean,
        deviation=deviation,
        mix=MIXES[at],
        likelihood=likelihood + scale.log_derivatives(rows),
    )


@lru_cache(maxsize=1)
def _mixes() -> tuple[Array, Array]:
    """Return, for each mix, the inverse covariance of a curve and its log-determinant."""
    covariances = np.array([_covariance(mix, _PLACES) for mix in MIXES])
    return np.linalg.inv(covariances), np.linalg.slogdet(covariances)[1]


def _covariance(mix: Array, at: Array) -> Array:
    """Return the covariance of one curve's measurements at some places, with noise."""
    covariance: Array = _kernel(mix, at, at) + mix[4] * np.eye(len(at))
    return covariance


def _kernel(mix: Array, a: Array, b: Array) -> Array:
    """Return the covariance of one curve at two sets of places, without noise."""
    constant, decaying, half, power, _ = mix
    sums = a[:, None] + b[None, :]
    covariance: Array = constant + decaying * (half / (sums + half)) ** power
    return covariance
