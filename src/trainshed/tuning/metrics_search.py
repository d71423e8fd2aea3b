"""Proposes the next point of a study with several objectives or with limits (decision 0116).

Each metric has a Gaussian process of its own.  Limits multiply the expected improvement, or with
two objectives the expected hypervolume improvement, by the probability that they are met;
while no trial is safe, that probability alone is searched.  With more objectives each trial has a
direction, in which it is to be better than all others (``reach.py``): the hypervolume leads to the
ends of the front too often.  Unlike for one objective the whole cube is searched: safe regions may
lie apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trainshed.model.trials import Values
from trainshed.tuning.candidates import Acquisition, Effort, Search, TrustRegion
from trainshed.tuning.cube import Array, Cube, CubeAxis, Point
from trainshed.tuning.expectation import AxisExpectation, with_expectations
from trainshed.tuning.feasibility import LimitScore, scale_limit, total_violation
from trainshed.tuning.gaussian import (
    BELIEVED_MAX,
    FITTED_MAX,
    ModelAssumptions,
    Surrogate,
    cube_of,
    effort_of,
    filling_points,
    first_new,
    fitted_hyperparameters,
    select_indexes,
    standardize,
    thread_controller,
)
from trainshed.tuning.history import History, TriedPoint
from trainshed.tuning.hypervolume import ExpectedHypervolume, front_of, strips_below
from trainshed.tuning.improvement import ImprovementScore
from trainshed.tuning.joint import BeliefScore, JointPosterior, join
from trainshed.tuning.kernel import KernelPosterior, posterior
from trainshed.tuning.random_search import random_of
from trainshed.tuning.reach import reach_improvement

#: The probability with which a new trial must be safe while too few trials are; and otherwise.
_PROBABLY: Final = 0.95
_ANY: Final = 1e-300

#: After more trials than the first number the models are fitted again when the trials have grown
#: by a tenth and not a twentieth, a fit has fewer steps, and a climb ends when a step gains less
#: than the last number, a logarithm: a suggestion costs more then, and one trial decides less.
_FEW: Final = 50
_REFIT_FEW, _REFIT = 20, 10
_FIT_STEPS: Final = 12
_CLIMB_GAIN_MIN: Final = 1e-2

#: The most objectives that are searched by their hypervolume.
_HYPERVOLUME_MAX: Final = 2

#: The reference point lies beyond the worst values of the front by this share of its extent, and
#: is no better than this quantile of the losses that are expected at so many random points.
_BEYOND: Final = 0.1
_QUANTILE: Final = 0.75
_DRAWN: Final = 64

#: Points that are tried at the same time differ by this much in some coordinate.
_GAP: Final = 1e-3

#: With more objectives only losses this many spreads above the median are compressed: a point that
#: is bad in one objective may be good in the others.
_LINEAR: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The finished trials in the order in which they began; NaN: no value."""

    points: Array
    losses: Array
    """A column for each objective; less is better."""
    excesses: Array
    """A column for each limit; above 0 the limit is broken."""

    @property
    def worked(self) -> NDArray[np.bool_]:
        """Return which trials have all objectives."""
        return np.asarray(np.isfinite(self.losses).all(axis=1))

    @property
    def safe(self) -> NDArray[np.bool_]:
        """Return which trials have all objectives and meet all limits."""
        return np.asarray((self.excesses <= 0).all(axis=1) & self.worked)

    def first(self, count: int) -> "Results":
        """Return the results of the first trials."""
        return Results(
            points=self.points[:count],
            losses=self.losses[:count],
            excesses=self.excesses[:count],
        )


class MetricsSurrogate(Surrogate):
    """A space as a cube, searched by a Gaussian process for each metric."""

    def metrics_point(self, history: History, *, is_careful: bool) -> Values:
        """Return the point to try next.

        ``is_careful``: too few trials are safe, so points that are probably safe are preferred.
        """
        coordinates = propose_for_metrics(
            _results(self._finished_coordinates(history.finished), history.finished),
            self._coordinates(history.pending),
            axes=self._axes,
            seed=random_of(self._seed, history.number, "metrics").getrandbits(32),
            model=ModelAssumptions(noise=self._noise, plan=self._plan),
            is_careful=is_careful,
            expectations=self._expectations,
        )
        return self._space.walk(
            lambda dimension: dimension.axis.value(coordinates[dimension.index])
        )


def _results(points: Array, finished: Sequence[TriedPoint]) -> Results:
    count = max((len(tried.losses) for tried in finished if tried.losses), default=1)
    losses = [tried.losses or (math.nan,) * count for tried in finished]
    excesses = [tried.excesses for tried in finished]
    return Results(
        points=points,
        losses=np.array(losses, dtype=float).reshape(len(finished), count),
        excesses=np.array(excesses, dtype=float).reshape(len(finished), -1)
        if finished
        else np.empty((0, 0)),
    )


def propose_for_metrics(  # noqa: PLR0913  # what is known, what may be chosen and how
    results: Results,
    pending: Array,
    *,
    axes: Sequence[CubeAxis],
    seed: int,
    model: ModelAssumptions,
    is_careful: bool = False,
    expectations: Sequence[AxisExpectation] = (),
) -> Point:
    """Return the next point to try; a pure function of its arguments.

    The result is a known or pending point only if there is no other.  Pending points count with
    their expected values.
    """
    with thread_controller().limit(limits=1):
        rng = np.random.default_rng([seed, len(results.points), len(pending)])
        cube = cube_of(tuple(axes))
        points = np.vstack([results.points, pending])
        worked_count = int(results.worked.sum())
        if len(points) < model.plan.filling_count or worked_count < model.plan.results_min:
            return first_new(filling_points(cube, points, rng, expectations), points)
        search = _MetricsSearch(
            cube=cube,
            results=results,
            pending=cube.features(pending),
            merits=_merits(results),
            model=model,
            rng=rng,
            expectations=expectations,
        )
        ranked = search.rank(_PROBABLY if is_careful else _ANY)
        return first_new(_apart(ranked, cube.features(ranked), search.pending), points)


@dataclass(frozen=True, kw_only=True)
class _MetricsSearch:
    """The search for one point after ``results``."""

    cube: Cube
    results: Results
    pending: Array
    """Features."""
    merits: Array
    model: ModelAssumptions
    rng: np.random.Generator
    expectations: Sequence[AxisExpectation]

    def rank(self, probability_min: float) -> Array:
        """Return allowed points, the best first, that are safe with some probability if any is."""
        axes = len(self.cube.axes)
        search = Search(
            cube=self.cube,
            acquisition=with_expectations(
                self._acquisition(probability_min),
                self.cube,
                self.expectations,
                len(self.results.points),
            ),
            region=TrustRegion(low=np.zeros(axes), high=np.ones(axes)),
            rng=self.rng,
            effort=self._effort(probability_min),
        )
        return search.rank(self._best_points())

    @property
    def _is_quick(self) -> bool:
        """Whether there are so many trials that a suggestion must not cost more."""
        return len(self.results.points) > _FEW

    def _effort(self, probability_min: float) -> Effort:
        """Return the effort; a score with a steep edge, of a requirement, is climbed to its end."""
        effort = effort_of(len(self.pending))
        if self._is_quick and probability_min == _ANY:
            return replace(effort, climb_gain_min=_CLIMB_GAIN_MIN)
        return effort

    def _acquisition(self, probability_min: float) -> Acquisition:
        (count, _), columns = self._fitted, self.results.excesses.T
        scaled_limits = [scale_limit(column) for column in columns]
        limits = LimitScore(
            borders=np.array([limit.border for limit in scaled_limits]),
            required=math.log(probability_min) / max(len(columns), 1),
        )
        beliefs = [
            self._believe(limit.values, scale_limit(column[:count]).values)
            for limit, column in zip(scaled_limits, columns, strict=True)
        ]
        if beliefs and not self.results.safe.any():
            return MetricsScore(posterior=join(beliefs), limits=limits)
        losses = self.results.losses.T
        scale = standardize if len(losses) <= _HYPERVOLUME_MAX else _scale_gently
        scaled = [scale(column) for column in losses]
        beliefs += [
            self._believe(values, scale(column[:count]))
            for values, column in zip(scaled, losses, strict=True)
        ]
        joint = join(beliefs)
        rows = np.column_stack(scaled)[self.results.safe]
        rows = np.vstack([rows, self._expected(joint, limits.borders)])
        improvement = self._improvement(joint, rows)
        return MetricsScore(posterior=joint, limits=limits, improvement=improvement)

    def _improvement(self, joint: JointPosterior, losses: Array) -> BeliefScore:
        """Return the score of the objectives, from the scaled losses of the trials that count."""
        if losses.shape[1] == 1:
            return ImprovementScore(best=float(losses.min()))
        front = losses[front_of(losses)]
        reference = reference_point(front, self._usual_losses(joint, losses.shape[1]))
        if losses.shape[1] > _HYPERVOLUME_MAX:
            number = len(self.results.points) + len(self.pending)
            return reach_improvement(losses, reference, number)
        return ExpectedHypervolume(edges=strips_below(front, reference))

    def _usual_losses(self, joint: JointPosterior, count: int) -> Array:
        """Return the losses of the objectives that most random points are expected to beat.

        The trials themselves do not say what is usual: the search chose most of them at one end.
        """
        drawn = self.cube.snap(self.cube.draw(_DRAWN, self.rng))
        means, _ = joint.at(self.cube.features(drawn))
        return np.asarray(np.quantile(means[-count:], _QUANTILE, axis=1))

    def _expected(self, joint: JointPosterior, borders: Array) -> Array:
        """Return the expected losses of pending points that are probably safe."""
        means, _ = joint.at(self.pending)
        is_safe = (means[: len(borders)] <= borders[:, None]).all(axis=0)
        return np.asarray(means[len(borders) :, is_safe].T)

    def _believe(self, values: Array, fitted_values: Array) -> KernelPosterior:
        """Return the belief about a metric, with the expected values of pending points.

        ``values`` are the scaled ones of all trials; the fitted ones are scaled without the others,
        so that the cached fit remains valid.
        """
        _, fitted = self._fitted
        hyper = fitted_hyperparameters(
            self.cube.axes,
            self.results.points[fitted].tobytes(),
            fitted_values[fitted].tobytes(),
            replace(self.model, fit_steps=_FIT_STEPS) if self._is_quick else self.model,
        )
        rows, features = self._believed
        belief = posterior(hyper, self.cube.groups, features, values[rows])
        return belief.condition_on(self.pending) if len(self.pending) else belief

    @cached_property
    def _fitted(self) -> tuple[int, NDArray[np.intp]]:
        """Return how many trials the models are fitted to, and which of these they use.

        Their own merits decide: those of all trials would change the choice with each new trial.
        """
        count = _fitted_count(len(self.merits))
        is_whole = count <= FITTED_MAX or count == len(self.merits)
        merits = self.merits[:count] if is_whole else _merits(self.results.first(count))
        return count, select_indexes(merits, FITTED_MAX)

    @cached_property
    def _believed(self) -> tuple[NDArray[np.intp], Array]:
        """Return the trials that the models use for predictions, and their features."""
        rows = select_indexes(self.merits, BELIEVED_MAX)
        return rows, self.cube.features(self.results.points[rows])

    def _best_points(self) -> Array:
        """Return complete points, the best first; the points of a front in a random order."""
        believed, _ = self._believed
        order = np.lexsort((self.rng.random(len(believed)), self.merits[believed]))
        points = self.results.points[believed][order]
        return np.where(np.isnan(points), self.cube.draw(len(points), self.rng), points)


def _fitted_count(count: int) -> int:
    """Return to how many of ``count`` trials the models are fitted."""
    fitted, following = count and 1, 2
    while following <= count:
        share = _REFIT_FEW if following <= _FEW else _REFIT
        fitted, following = following, following + max(1, following // share)
    return fitted


def _apart(ranked: Array, features: Array, pending: Array) -> Array:
    """Return the rows that are not beside a pending point first, in the same order."""
    if not len(pending):
        return ranked
    gaps = np.abs(features[:, None, :] - pending[None, :, :]).max(axis=2).min(axis=1)
    return ranked[np.argsort(gaps < _GAP, kind="stable")]


#: Scales the losses of more than two objectives.
_scale_gently: Final = partial(standardize, linear=_LINEAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsScore:
    """The logarithm of an improvement times the probability that all limits are met."""

    posterior: JointPosterior
    """The limits come first, then the objectives."""
    limits: LimitScore
    improvement: BeliefScore | None = None
    """None: there is no safe trial, and only the probability is searched."""

    def score(self, features: Array) -> Array:
        """Return the score of each row."""
        mean, deviation = self.posterior.at(features)
        count = len(self.limits.borders)
        score = self.limits.score(mean[:count], deviation[:count])
        if self.improvement:
            score += self.improvement.score(mean[count:], deviation[count:])
        return score

    def slopes(self, features: Array) -> tuple[Array, Array]:
        """Return the score of each row, and its gradient by the row's features."""
        return self.posterior.climb(features, self._slopes)

    def _slopes(self, mean: Array, deviation: Array) -> tuple[Array, Array, Array]:
        if not self.improvement:
            return self.limits.slopes(mean, deviation)
        count = len(self.limits.borders)
        if not count:
            return self.improvement.slopes(mean, deviation)
        limits = self.limits.slopes(mean[:count], deviation[:count])
        improvement = self.improvement.slopes(mean[count:], deviation[count:])
        return (
            limits[0] + improvement[0],
            np.concatenate([limits[1], improvement[1]]),
            np.concatenate([limits[2], improvement[2]]),
        )


def reference_point(front: Array, usual: Array) -> Array:
    """Return the worst values that count in a hypervolume, from a front of scaled losses.

    At least the ``usual`` losses count: else a small front would stay small.
    """
    worst = front.max(axis=0)
    extent = worst - front.min(axis=0)
    beyond = worst + _BEYOND * np.where(extent > 0, extent, 1.0)
    return np.asarray(np.maximum(beyond, usual))


def _merits(results: Results) -> Array:
    """Return a value for each trial, less is better: the safe ones first, by their losses.

    The merit among several objectives is the number of trials of the front that dominate a trial.
    """
    scaled = np.column_stack([standardize(column) for column in results.losses.T])
    safe = results.safe
    values = scaled[:, 0] if scaled.shape[1] == 1 else _dominators(scaled, scaled[safe])
    violations = total_violation(results.excesses)
    return np.where(safe, values, values.max() + 1.0 + violations)


def _dominators(losses: Array, others: Array) -> Array:
    """Return how many rows of the others' front dominate each row."""
    front = others[front_of(others)]
    no_worse = np.ones((len(front), len(losses)), dtype=np.bool_)
    better = np.zeros_like(no_worse)
    for in_front, column in zip(front.T, losses.T, strict=True):
        no_worse &= in_front[:, None] <= column
        better |= in_front[:, None] < column
    return np.asarray((no_worse & better).sum(axis=0), dtype=np.float64)
