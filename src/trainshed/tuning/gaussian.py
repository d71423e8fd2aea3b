"""Proposes the default algorithm's next point by a Gaussian process (decision 0022).

Matern 5/2 with a length per axis, expected improvement, and a region around the best point that
shrinks while nothing better is found.  Pending points count with their expected value, so that no
two trials search the same improvement.  The module uses only the unit cube; ``Surrogate`` connects
it to a study's space.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from trainshed.model.study import Noise
from trainshed.model.trials import Values
from trainshed.tuning.candidates import QUICK, THOROUGH, Effort, Search, TrustRegion
from trainshed.tuning.cube import Array, Cube, CubeAxis, Point
from trainshed.tuning.expectation import (
    AxisExpectation,
    expect_in_rows,
    expectations_of,
    with_expectations,
)
from trainshed.tuning.history import History, TriedPoint
from trainshed.tuning.improvement import ExpectedImprovement
from trainshed.tuning.kernel import (
    STEPS,
    Hyperparameters,
    Priors,
    fit_hyperparameters,
    posterior,
)
from trainshed.tuning.random_search import random_of, random_point
from trainshed.tuning.scales import all_positions
from trainshed.tuning.search_plan import FIRST_PLAN, SearchPlan
from trainshed.tuning.space import Dimension, Space

#: An INTEGER with more values counts as continuous.
POSITIONS_MAX: Final = 1000

#: Larger losses are divided by the largest one.
LOSS_MAX: Final = 1e100

#: There is no Sobol sequence with more dimensions.
_SOBOL_MAX: Final = 21_201


class Surrogate:
    """A space as a cube, searched by the Gaussian process or filled evenly."""

    def __init__(
        self, space: Space, seed: int, noise: Noise, plan: SearchPlan = FIRST_PLAN
    ) -> None:
        """Make the cube: one axis for each dimension, in the same order."""
        self._expectations = expectations_of(space)
        self._space = space
        self._seed = seed
        self._noise = noise
        self._plan = plan
        self._axes = [_axis(space, dimension) for dimension in space.dimensions]
        self._finished: tuple[Sequence[TriedPoint], Array] = ((), np.empty((0, len(self._axes))))
        """The finished points of the last call, and their coordinates."""

    @property
    def is_able(self) -> bool:
        """Whether the process can search the space: parents must have listed positions."""
        parents = {
            dimension.parent for dimension in self._space.dimensions if dimension.parent is not None
        }
        return all(_is_listed(self._space.dimensions[parent]) for parent in parents)

    def point(self, history: History) -> Values:
        """Return the point where the objective may be best; only for one objective."""
        coordinates = propose(
            self._finished_coordinates(history.finished),
            _losses(history),
            self._coordinates(history.pending),
            axes=self._axes,
            seed=random_of(self._seed, history.number, "surrogate").getrandbits(32),
            noise=self._noise,
            plan=self._plan,
            expectations=self._expectations,
        )
        return self._space.walk(
            lambda dimension: dimension.axis.value(coordinates[dimension.index])
        )

    def filling(self, history: History) -> Values:
        """Return the next point of a sequence that fills the space evenly at any length."""
        from scipy.stats import qmc  # noqa: PLC0415 - it takes a second and much memory

        if len(self._axes) > _SOBOL_MAX:
            return random_point(self._space, random_of(self._seed, history.number, "filling"))
        scrambled = np.random.default_rng(random_of(self._seed, 0, "filling").getrandbits(32))
        sequence = qmc.Sobol(len(self._axes), rng=scrambled).fast_forward(history.number)
        rows = sequence.random(1)
        if self._expectations:
            drawn = np.random.default_rng([self._seed % 2**64, history.number])
            rows = expect_in_rows(rows, cube_of(tuple(self._axes)), self._expectations, drawn)
        row = [float(coordinate) for coordinate in rows[0]]
        return self._space.walk(lambda dimension: dimension.axis.value(row[dimension.index]))

    def _finished_coordinates(self, finished: Sequence[TriedPoint]) -> Array:
        """Return the coordinates; all points of one batch have the same finished ones."""
        if self._finished[0] is not finished:
            self._finished = (finished, self._coordinates(finished))
        return self._finished[1]

    def _coordinates(self, tried_points: Sequence[TriedPoint]) -> Array:
        """Return a row for each point, with NaN for inactive axes."""
        coordinates = np.full((len(tried_points), len(self._axes)), math.nan)
        for dimension in self._space.dimensions:
            index = dimension.index
            if dimension.parent is None:
                values = [tried.chosen[index] for tried in tried_points]
                coordinates[:, index] = dimension.axis.positions_of(values)
                continue
            rows = [row for row, tried in enumerate(tried_points) if index in tried.chosen]
            values = [tried_points[row].chosen[index] for row in rows]
            coordinates[rows, index] = dimension.axis.positions_of(values)
        return coordinates


def _losses(history: History) -> list[float]:
    """Return losses whose squares do not overflow; NaN for a failed trial."""
    losses = [tried.losses[0] if tried.losses else math.nan for tried in history.finished]
    largest = max((abs(loss) for loss in losses if math.isfinite(loss)), default=0.0)
    return [loss / largest for loss in losses] if largest > LOSS_MAX else losses


def _axis(space: Space, dimension: Dimension) -> CubeAxis:
    axis = dimension.axis
    parent = None if dimension.parent is None else space.dimensions[dimension.parent].axis
    return CubeAxis(
        positions=all_positions(axis) if _is_listed(dimension) else (),
        is_category=isinstance(axis.value(0.5), str),
        parent=dimension.parent,
        parent_positions=frozenset(
            parent.position(value) for value in dimension.parent_values if parent
        ),
    )


def _is_listed(dimension: Dimension) -> bool:
    """Whether a dimension has listed positions, as every category has."""
    count = dimension.axis.count
    is_word = isinstance(dimension.axis.value(0.5), str)
    return count is not None and (is_word or count <= POSITIONS_MAX)


__all__ = ["CubeAxis", "Point", "forget", "propose"]

#: The maximum of points for the fit and for the predictions, which limits the time.
FITTED_MAX: Final = 100
BELIEVED_MAX: Final = 200

#: The number of pending trials above which the search for each point is shorter.
_FEW_PENDING: Final = 8

#: The cached fit is used until the number of results has grown by this share.
_REFIT: Final = 20

#: The prior variance of the noise relative to the values, and the deviation of its logarithm.
_NOISE: Final[Mapping[Noise, tuple[float, float]]] = {
    Noise.LOW: (math.log(1e-6), 1.0),
    Noise.DEFAULT: (-6.0, 2.0),
    Noise.HIGH: (math.log(0.1), 1.0),
}

#: The points that are drawn while the space is filled, and the number that is compared.
_DRAWN_START: Final = 512
_FEW: Final = 8

#: The region's width: the first, the largest, and the one below which it restarts.
_WIDTH_FIRST: Final = 0.8
_WIDTH_MAX: Final = 1.6
_WIDTH_MIN: Final = 2.0**-7

#: The number of better values in a row that widens the region.
_SUCCESSES: Final = 3

#: A smaller share of the largest value counts as no spread: a division by it might overflow.
_SPREAD_MIN: Final = 1e-100

#: Improvements below this share of the distance from the median are no progress.
_PROGRESS: Final = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAssumptions:
    """The assumptions of a model of one metric."""

    noise: Noise
    plan: SearchPlan
    fit_steps: int = STEPS


def propose(  # noqa: PLR0913  # what is known, what may be chosen and how
    points: Sequence[Point] | Array,
    values: Sequence[float],
    pending: Sequence[Point] | Array,
    *,
    axes: Sequence[CubeAxis],
    seed: int,
    noise: Noise = Noise.DEFAULT,
    plan: SearchPlan = FIRST_PLAN,
    expectations: Sequence[AxisExpectation] = (),
) -> Point:
    """Return the next point to try, to minimise; a pure function of its arguments.

    ``values`` are the results of ``points``, in the order in which the trials began; NaN or
    infinity means a failed trial.  ``pending`` are points without a value yet.  Coordinates of the
    result are exactly from ``positions``, and NaN if an axis is inactive.  The result is a known or
    pending point only if there is no other; the caller checks whether a finite space is used up.
    """
    # With one thread the sums are the same on every machine, and small ones are not slower.
    with thread_controller().limit(limits=1):
        rng = np.random.default_rng([seed, len(points), len(pending)])
        cube = cube_of(tuple(axes))
        matrices = [
            np.array(some, dtype=float).reshape(-1, len(axes)) for some in (points, pending)
        ]
        trial_points = np.vstack(matrices)
        results = np.array(values, dtype=float)
        if len(trial_points) < plan.filling_count or np.isfinite(results).sum() < plan.results_min:
            ranked = filling_points(cube, trial_points, rng, expectations)
        else:
            model = ModelAssumptions(noise=noise, plan=plan)
            ranked = _improving(cube, trial_points, results, model, rng, expectations=expectations)
        return first_new(ranked, trial_points)


def forget() -> None:
    """Empty the cache of fits, for benchmarks."""
    fitted_hyperparameters.cache_clear()


def filling_points(
    cube: Cube,
    trial_points: Array,
    rng: np.random.Generator,
    expectations: Sequence[AxisExpectation] = (),
) -> Array:
    """Return random points; the first few are sorted, the farthest from all used points first.

    Only a few are sorted, because the farthest of many points are the corners of the cube.  With
    expectations none is: the farthest are the least expected.
    """
    rows = cube.draw(_DRAWN_START, rng)
    drawn = cube.snap(expect_in_rows(rows, cube, expectations, rng) if expectations else rows)
    if expectations or not len(trial_points):
        return drawn
    few = cube.features(drawn[:_FEW])
    gaps = few[:, None, :] - cube.features(trial_points)[None, :, :]
    order = np.argsort(-(gaps**2).sum(axis=2).min(axis=1), kind="stable")
    return np.vstack([drawn[order], drawn[_FEW:]])


def _improving(  # noqa: PLR0913  # what is known, and how the next point is chosen
    cube: Cube,
    trial_points: Array,
    values: Array,
    model: ModelAssumptions,
    rng: np.random.Generator,
    *,
    expectations: Sequence[AxisExpectation],
) -> Array:
    """Return allowed points by expected improvement, the best first."""
    scaled_values = standardize(values)
    indexes = select_indexes(scaled_values, BELIEVED_MAX)
    points = trial_points[: len(values)][indexes]
    hyper = _hyper(cube, trial_points, values, model)
    belief = posterior(hyper, cube.groups, cube.features(points), scaled_values[indexes])
    best = float(scaled_values.min())
    if len(trial_points) > len(values):
        belief = belief.condition_on(cube.features(trial_points[len(values) :]))
    complete = np.where(np.isnan(points), cube.draw(len(points), rng), points)
    order = np.argsort(scaled_values[indexes], kind="stable")
    ranked_points = complete[order]
    size = trust_region_width(values, model.plan.width_wait, len(cube.axes))
    region = _region(cube, points[order[0]], hyper, size)
    effort = effort_of(len(trial_points) - len(values))
    improvement = ExpectedImprovement(posterior=belief, best=best)
    search = Search(
        cube=cube,
        acquisition=with_expectations(improvement, cube, expectations, len(values)),
        region=region,
        rng=rng,
        effort=effort,
        scores_again=model.plan.scores_again,
    )
    return search.rank(ranked_points)


def effort_of(pending_count: int) -> Effort:
    """Return the effort of the search for a point beside so many pending ones."""
    return THOROUGH if pending_count <= _FEW_PENDING else QUICK


def select_indexes(values: Array, count_max: int) -> NDArray[np.intp]:
    """Return the indexes of the newest values and of the best others, ascending."""
    if len(values) <= count_max:
        return np.arange(len(values))
    newest = len(values) - count_max // 2
    best = np.argsort(values[:newest], kind="stable")[: count_max - count_max // 2]
    return np.concatenate([np.sort(best), np.arange(newest, len(values))])


def _hyper(
    cube: Cube, trial_points: Array, values: Array, model: ModelAssumptions
) -> Hyperparameters:
    """Return the fit to all but the last few values, so that the next calls use the cached fit."""
    count = fitted_count(len(values))
    scaled_values = standardize(values[:count])
    indexes = select_indexes(scaled_values, FITTED_MAX)
    fitted_points = trial_points[indexes].tobytes()
    return fitted_hyperparameters(cube.axes, fitted_points, scaled_values[indexes].tobytes(), model)


def fitted_count(count: int) -> int:
    """Return to how many of ``count`` values the model is fitted."""
    return count - count % max(1, count // _REFIT)


@lru_cache(maxsize=64)
def fitted_hyperparameters(
    axes: tuple[CubeAxis, ...], points: bytes, values: bytes, model: ModelAssumptions
) -> Hyperparameters:
    """Return the fit; the cache only saves time, because equal arguments give equal results."""
    cube = cube_of(axes)
    x = cube.features(np.frombuffer(points).reshape(-1, len(axes)))
    # distances grow with the root of the dimensions, and so do the prior lengths
    length = (0.5 * math.log(len(axes)) - 0.7, 0.7)
    priors = Priors(length=length, noise=_NOISE[model.noise])
    starts = model.plan.fit_starts
    return fit_hyperparameters(
        x, np.frombuffer(values), cube.groups, priors, starts, steps=model.fit_steps
    )


def _region(cube: Cube, best: Array, hyper: Hyperparameters, size: float) -> TrustRegion:
    """Return the region around the best point, wider along axes that matter less.

    Axes without a slope, and axes that are inactive in the best point, keep their whole range.
    """
    reach = 0.5 * size * hyper.lengths / np.exp(np.log(hyper.lengths).mean())
    low, high = np.zeros(len(best)), np.ones(len(best))
    sloped_axes = cube.columns
    low[sloped_axes] = np.clip(best[sloped_axes] - reach[sloped_axes], 0.0, 1.0)
    high[sloped_axes] = np.clip(best[sloped_axes] + reach[sloped_axes], 0.0, 1.0)
    absent = np.isnan(best)
    return TrustRegion(low=np.where(absent, 0.0, low), high=np.where(absent, 1.0, high))


def first_new(ranked: Array, trial_points: Array) -> Point:
    """Return the best unused point, or the best of all."""
    trial_keys = _comparable(trial_points)
    rows = zip(ranked, _comparable(ranked), strict=True)
    new = next((row for row, key in rows if not (trial_keys == key).all(axis=1).any()), ranked[0])
    return tuple(float(x) for x in new)


def _comparable(rows: Array) -> Array:
    """Return rows that are equal for equal points: NaN, which equals nothing, becomes -1."""
    return np.where(np.isnan(rows), -1.0, rows)


@lru_cache(maxsize=16)
def cube_of(axes: tuple[CubeAxis, ...]) -> Cube:
    return Cube(axes)


@lru_cache(maxsize=1)
def thread_controller() -> ThreadpoolController:
    """Return the controller of thread pools, which looks for loaded libraries only once."""
    return ThreadpoolController()


def standardize(values: Array, linear: float = 0.0) -> Array:
    """Return values of mean 0 and deviation 1, in the same order; failed ones get the worst value.

    Values that are ``linear`` spreads worse than the median are compressed: the size of a bad value
    says little about the place of good ones, and a divergent one must not dominate the others.
    """
    finite = values[np.isfinite(values)]
    if not len(finite):
        return np.zeros(len(values))
    largest = float(np.abs(finite).max()) or 1.0  # squares of the remaining values cannot overflow
    finite = finite / largest
    filled = np.where(np.isfinite(values), values / largest, finite.max())
    ordered = np.sort(finite)
    middle = float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2.0
    spreads = (middle - low_decile(ordered), float(np.std(finite)))
    unit = next((spread for spread in spreads if spread > _SPREAD_MIN), 1.0)
    knee = middle + linear * unit
    above = np.maximum(filled - knee, 0.0) / unit
    even = np.where(filled > knee, knee + unit * np.log1p(above), filled)
    even = (even - even.mean()) / (even.std() or 1.0)
    return np.asarray(even)


def low_decile(ordered: Array) -> float:
    """Return the tenth percentile of ascending values: numpy.percentile's, which takes longer."""
    last = len(ordered) - 1
    below = int(0.1 * last)
    low, high = float(ordered[below]), float(ordered[min(below + 1, last)])
    above_low = 0.1 * last - below
    below_high = 1.0 - above_low
    if above_low < below_high:
        return low + (high - low) * above_low
    return high - (high - low) * below_high


def trust_region_width(values: Array, start: int, axes: int) -> float:
    """Return the width of the region around the best point, from all results so far.

    After Eriksson et al., "Scalable Global Optimization via Local Bayesian Optimization" (NeurIPS
    2019): successes double the width, failures halve it.  The width follows from the values alone,
    so no state is stored.
    """
    size, successes, failures = _WIDTH_FIRST, 0, 0
    best = float(np.min(values[:start], initial=np.inf, where=np.isfinite(values[:start])))
    middle = float(np.median(values[np.isfinite(values)]))
    for value in values[start:]:
        if value < best - _PROGRESS * (middle - best):
            best, successes, failures = float(value), successes + 1, 0
        else:
            successes, failures = 0, failures + 1
        if successes == _SUCCESSES:
            size, successes = min(_WIDTH_MAX, 2.0 * size), 0
        if failures == max(5, axes // 2):
            size, failures = size / 2.0, 0
        if size < _WIDTH_MIN:
            size = _WIDTH_FIRST
    return size
