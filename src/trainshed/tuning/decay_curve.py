"""The decay-curve rule: stops a trial that is very unlikely to beat the best one.

A Gaussian process predicts the final value from past curves and from the trial's own measurements
(docs/sources/vertex.md 8).  A curve is the mean of the past ones, plus a constant of its own, plus
a part that decays like a sum of many exponentials (the freeze-thaw kernel of Swersky, Snoek and
Adams, 2014), plus noise; how much of each is the most likely mix for the past curves, from a short
list.  Full regression over all trials at once was turned down: it says little more, and costs a
matrix as large as the study.

Values are seen by their distance to the best one, on a scale that is logarithmic far from it and
linear near it; how near is what makes the past curves likeliest too.  Often they differ by much
where they are bad and by little where they are good, and it is the good ones that a trial has to
beat (decision 0024 has the figures).
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
from trainshed.tuning.curves import TrialCurve, curves, ended_by_itself
from trainshed.tuning.ranking import best, upward

Array = NDArray[np.float64]

#: The least trials that ended by themselves, for the rule to apply.
COMPLETED_MIN: Final = 3
#: Measurements of a trial before it is judged.
MEASUREMENTS_MIN: Final = 3
#: A smaller chance of beating the best is very unlikely.
CHANCE_MIN: Final = 0.01
#: How many past curves are learned from, the latest ones, and at how many places each is looked at.
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
#: The scales that are tried: so near to the best value they are linear, in deviations of the ends.
NEARS: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 1e6)


def stopped_by_decay_curve(
    study: StudySpec, metric: Metric, rule: DecayCurveRule, trials: Sequence[TrialRecord]
) -> Mapping[int, str]:
    """Each ACTIVE trial that the rule stops, and why."""
    leader = best(study, trials)
    done = curves(metric, filter(ended_by_itself, trials), by_time=rule.by_time)[-PAST_MAX:]
    if leader is None or leader.final is None or len(done) < COMPLETED_MIN:
        return {}
    value = leader.final.value(metric.metric_id) or 0.0
    past = _learn(done, upward(metric.goal, value))
    active = (trial for trial in trials if trial.state is TrialState.ACTIVE)
    chances = {
        curve.number: past.chance(curve)
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
class _Scale:
    """Values as their distance to the best one: of either sign, and 0 for the best one itself."""

    top: float
    near: float

    def drawn(self, values: Array) -> Array:
        """The values on this scale."""
        drawn: Array = np.arcsinh((values - self.top) / self.near)
        return drawn

    def stretch(self, values: Array) -> float:
        """The logarithm of how much wider it is where the values lie, of all together."""
        return -float(np.log(np.hypot(values - self.top, self.near)).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """The best mix on one scale, and the logarithm of how likely it makes the past curves."""

    scale: _Scale
    mean: Array
    deviation: float
    mix: Array
    likelihood: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Past:
    """The fit of past curves; places are shares of the longest one."""

    longest: float
    count: int
    fit: _Fit

    def chance(self, curve: TrialCurve) -> float:
        """The chance that a curve ends above the best value."""
        if curve.best >= self.fit.scale.top:
            return 1.0
        mix, deviation = self.fit.mix, self.fit.deviation
        at, residuals = self._standard(curve)
        end = np.array([max(1.0, at[-1])])
        cross = _kernel(mix, end, at)[0]
        weights = np.linalg.solve(_covariance(mix, at), cross)
        variance = _covariance(mix, end)[0, 0] - weights @ cross
        variance *= 1.0 + 1.0 / self.count  # the mean is known from these few curves only
        expected = float(np.interp(end, _PLACES, self.fit.mean)[0])
        expected += deviation * float(weights @ residuals)
        spread = deviation * math.sqrt(max(float(variance), 1e-12))
        return float(stdtr(self.count - 1, expected / spread))

    def _standard(self, curve: TrialCurve) -> tuple[Array, Array]:
        """Places and how far a curve is off the mean there; of a long curve not every point."""
        step = np.unique(np.linspace(0, len(curve.at) - 1, PLACES).round().astype(int))
        at = np.array(curve.at)[step] / self.longest
        values = self.fit.scale.drawn(np.array(curve.values)[step])
        return at, (values - np.interp(at, _PLACES, self.fit.mean)) / self.fit.deviation


@lru_cache(maxsize=8)
def _learn(done: tuple[TrialCurve, ...], top: float) -> _Past:
    """The likeliest scale and mix for these curves; one that ended sooner goes on as it ended."""
    longest = max(curve.end for curve in done) or 1.0
    rows = np.array([np.interp(_PLACES * longest, curve.at, curve.values) for curve in done])
    unit = float(np.std(rows[:, -1])) or 1.0
    fits = [_fit(rows, _Scale(top=top, near=near * unit)) for near in NEARS]
    return _Past(longest=longest, count=len(done), fit=max(fits, key=lambda fit: fit.likelihood))


def _fit(rows: Array, scale: _Scale) -> _Fit:
    drawn = scale.drawn(rows)
    mean = drawn.mean(axis=0)
    deviation = float(np.sqrt(np.mean((drawn - mean) ** 2))) or 1.0
    standard = (drawn - mean) / deviation
    inverses, logs = _mixes()
    misfit = np.einsum("mij,ij->m", inverses, standard.T @ standard / len(rows))
    at = int(np.argmin(logs + misfit))
    likelihood = -0.5 * len(rows) * float(logs[at] + misfit[at]) - rows.size * math.log(deviation)
    return _Fit(
        scale=scale,
        mean=mean,
        deviation=deviation,
        mix=MIXES[at],
        likelihood=likelihood + scale.stretch(rows),
    )


@lru_cache(maxsize=1)
def _mixes() -> tuple[Array, Array]:
    """Of each mix the inverse covariance of a curve, and the logarithm of its determinant."""
    covariances = np.array([_covariance(mix, _PLACES) for mix in MIXES])
    return np.linalg.inv(covariances), np.linalg.slogdet(covariances)[1]


def _covariance(mix: Array, at: Array) -> Array:
    """The covariance of what one curve measures at some places, its noise included."""
    covariance: Array = _kernel(mix, at, at) + mix[4] * np.eye(len(at))
    return covariance


def _kernel(mix: Array, a: Array, b: Array) -> Array:
    """The covariance of one curve at two sets of places, without noise."""
    constant, decaying, half, power, _ = mix
    sums = a[:, None] + b[None, :]
    covariance: Array = constant + decaying * (half / (sums + half)) ** power
    return covariance
