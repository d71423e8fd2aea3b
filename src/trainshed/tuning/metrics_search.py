"""Proposes the next point of a study with several objectives or with limits (decision 0116).

Each metric has a Gaussian process of its own.  Limits multiply the expected improvement, or with
two objectives the expected hypervolume improvement, by the probability that they are met;
while no trial is safe, that probability alone is searched.  With more objectives each trial has a
direction, in which it is to be better than all others (``reach.py``): the hypervolume leads to the
ends of the front too often.  Unlike for one objective the whole cube is searched: safe regions may
lie apart.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trainshed.model.trials import Values
from trainshed.tuning.candidates import Acquisition, Search, TrustRegion
from trainshed.tuning.cube import Array, Cube, CubeAxis, Point
from trainshed.tuning.expectation import AxisExpectation, with_expectations
from trainshed.tuning.feasibility import LimitScore, ScoreSum, scale_limit, total_violation
from trainshed.tuning.gaussian import (
    BELIEVED_MAX,
    FITTED_MAX,
    ModelAssumptions,
    Surrogate,
    cube_of,
    effort_of,
    filling_points,
    first_new,
    fitted_count,
    fitted_hyperparameters,
    select_indexes,
    standardize,
    thread_controller,
)
from trainshed.tuning.history import History, TriedPoint
from trainshed.tuning.hypervolume import (
    ExpectedHypervolume,
    boxes_below,
    edges_of,
    front_of,
)
from trainshed.tuning.improvement import ExpectedImprovement
from trainshed.tuning.kernel import KernelPosterior, posterior
from trainshed.tuning.random_search import random_of
from trainshed.tuning.reach import reach_improvement

#: The probability with which a new trial must be safe while too few trials are; and otherwise.
_PROBABLY: Final = 0.95
_ANY: Final = 1e-300

#: The most objectives that are searched by their hypervolume.
_HYPERVOLUME_MAX: Final = 2

#: The reference point lies beyond the worst values of the front by this share of its extent.
_BEYOND: Final = 0.1

#: The scaled loss of a usual trial: half a deviation worse than the mean.
_USUAL: Final = 0.5

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


@dataclass(frozen=True, slots=True, kw_only=True)
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
            effort=effort_of(len(self.pending)),
        )
        return search.rank(self._best_points())

    def _acquisition(self, probability_min: float) -> Acquisition:
        limits = self._limits(probability_min)
        safe = self.results.safe
        if limits and not safe.any():
            return ScoreSum(parts=limits)
        losses = self.results.losses.T
        scale = standardize if len(losses) <= _HYPERVOLUME_MAX else _scale_gently
        beliefs = [self._believe(column, scale) for column in losses]
        scaled = np.column_stack([scale(column) for column in losses])
        rows = np.vstack([scaled[safe], self._expected(beliefs, limits)])
        number = len(self.results.points) + len(self.pending)
        return ScoreSum(parts=[*limits, _improvement(beliefs, rows, number)])

    def _limits(self, probability_min: float) -> list[LimitScore]:
        columns = self.results.excesses.T
        return [
            LimitScore(
                posterior=self._believe(column, lambda excesses: scale_limit(excesses).values),
                border=scale_limit(column).border,
                required=math.log(probability_min) / len(columns),
            )
            for column in columns
        ]

    def _expected(self, beliefs: Sequence[KernelPosterior], limits: Sequence[LimitScore]) -> Array:
        """Return the expected losses of pending points that are probably safe."""
        if not len(self.pending):
            return np.empty((0, len(beliefs)))
        means = np.column_stack([belief.at(self.pending)[0] for belief in beliefs])
        is_safe = [limit.posterior.at(self.pending)[0] <= limit.border for limit in limits]
        return means[np.all(is_safe, axis=0)] if limits else means

    def _believe(self, column: Array, scale: Callable[[Array], Array]) -> KernelPosterior:
        """Return the belief about a metric, with the expected values of pending points."""
        count, points = fitted_count(len(column)), self.results.points
        fitted = select_indexes(self.merits[:count], FITTED_MAX)
        hyper = fitted_hyperparameters(
            self.cube.axes,
            points[fitted].tobytes(),
            scale(column[:count])[fitted].tobytes(),
            self.model,
        )
        believed = select_indexes(self.merits, BELIEVED_MAX)
        features = self.cube.features(points[believed])
        belief = posterior(hyper, self.cube.groups, features, scale(column)[believed])
        return belief.condition_on(self.pending) if len(self.pending) else belief

    def _best_points(self) -> Array:
        """Return complete points, the best first; the points of a front in a random order."""
        believed = select_indexes(self.merits, BELIEVED_MAX)
        order = np.lexsort((self.rng.random(len(believed)), self.merits[believed]))
        points = self.results.points[believed][order]
        return np.where(np.isnan(points), self.cube.draw(len(points), self.rng), points)


def _apart(ranked: Array, features: Array, pending: Array) -> Array:
    """Return the rows that are not beside a pending point first, in the same order."""
    if not len(pending):
        return ranked
    gaps = np.abs(features[:, None, :] - pending[None, :, :]).max(axis=2).min(axis=1)
    return ranked[np.argsort(gaps < _GAP, kind="stable")]


#: Scales the losses of more than two objectives.
_scale_gently: Final = partial(standardize, linear=_LINEAR)


def _improvement(beliefs: Sequence[KernelPosterior], scaled: Array, number: int) -> Acquisition:
    """Return the score of the objectives, from the scaled losses of the trials that count."""
    if len(beliefs) == 1:
        return ExpectedImprovement(posterior=beliefs[0], best=float(scaled.min()))
    front = scaled[front_of(scaled)]
    reference = reference_point(front)
    if len(beliefs) > _HYPERVOLUME_MAX:
        return reach_improvement(beliefs, scaled, reference, number)
    boxes = boxes_below(front, reference)
    return ExpectedHypervolume(posteriors=beliefs, edges=edges_of(boxes))


def reference_point(front: Array) -> Array:
    """Return the worst values that count in a hypervolume, from a front of scaled losses.

    At least the values of a usual trial count: else a small front would stay small.
    """
    worst = front.max(axis=0)
    extent = worst - front.min(axis=0)
    beyond = worst + _BEYOND * np.where(extent > 0, extent, 1.0)
    return np.asarray(np.maximum(beyond, _USUAL))


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
    no_worse = (front[None, :, :] <= losses[:, None, :]).all(axis=2)
    better = (front[None, :, :] < losses[:, None, :]).any(axis=2)
    return np.asarray((no_worse & better).sum(axis=1), dtype=np.float64)
