"""Proposes the default algorithm's next point by a Gaussian process (decision 0022).

Matern 5/2 with a length per axis, expected improvement, and a region around the best point that
shrinks while nothing better is found.  Pending points count as if they had the value that is
expected of them, so that no two trials look for the same improvement.  It knows only the unit cube;
``Surrogate`` stands between that and a study's space.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from trainshed.model.study import Noise
from trainshed.model.trials import Value, Values
from trainshed.tuning.candidates import QUICK, THOROUGH, Search, TrustRegion
from trainshed.tuning.cube import Array, Cube, CubeAxis, Point
from trainshed.tuning.history import History
from trainshed.tuning.kernel import Hyperparameters, Priors, fitted, posterior
from trainshed.tuning.random_search import random_of, random_point
from trainshed.tuning.space import Dimension, Space

#: An INTEGER of more values is as good as continuous.
POSITIONS_MAX: Final = 1000

#: Where losses are larger, only their shares of the largest are looked at.
LOSS_MAX: Final = 1e100

#: More dimensions have no Sobol sequence.
_SOBOL_MAX: Final = 21_201


class Surrogate:
    """A space as a cube, searched by the Gaussian process or filled evenly."""

    def __init__(self, space: Space, seed: int, noise: Noise) -> None:
        """Lay out the cube: one axis for each dimension, in the same order."""
        self._space = space
        self._seed = seed
        self._noise = noise
        self._axes = [_axis(space, dimension) for dimension in space.dimensions]
        self._points: dict[Values, Point] = {}

    @property
    def is_able(self) -> bool:
        """Whether every condition follows from the parent's coordinate."""
        parents = {
            dimension.parent for dimension in self._space.dimensions if dimension.parent is not None
        }
        return all(_is_listed(self._space.dimensions[parent]) for parent in parents)

    def point(self, history: History) -> Values:
        """Where the objective may be best; only for studies with one objective."""
        coordinates = propose(
            [self._coordinates(tried.values, tried.chosen) for tried in history.finished],
            _losses(history),
            [self._coordinates(tried.values, tried.chosen) for tried in history.pending],
            axes=self._axes,
            seed=random_of(self._seed, history.number, "surrogate").getrandbits(32),
            noise=self._noise,
        )
        return self._space.walk(
            lambda dimension: dimension.axis.value(coordinates[dimension.index])
        )

    def filling(self, history: History) -> Values:
        """The next point of a sequence that leaves no large hole, however long it goes on."""
        from scipy.stats import qmc  # noqa: PLC0415 - it takes a second and much memory

        if len(self._axes) > _SOBOL_MAX:
            return random_point(self._space, random_of(self._seed, history.number, "filling"))
        scrambled = np.random.default_rng(random_of(self._seed, 0, "filling").getrandbits(32))
        sequence = qmc.Sobol(len(self._axes), rng=scrambled).fast_forward(history.number)
        row = [float(coordinate) for coordinate in sequence.random(1)[0]]
        return self._space.walk(lambda dimension: dimension.axis.value(row[dimension.index]))

    def _coordinates(self, values: Values, chosen: Mapping[int, Value]) -> Point:
        if values not in self._points:
            self._points[values] = tuple(
                dimension.axis.position(chosen[dimension.index])
                if dimension.index in chosen
                else math.nan
                for dimension in self._space.dimensions
            )
        return self._points[values]


def _losses(history: History) -> list[float]:
    """Losses whose squares are still floats; NaN for a failure."""
    losses = [tried.losses[0] if tried.losses else math.nan for tried in history.finished]
    largest = max((abs(loss) for loss in losses if math.isfinite(loss)), default=0.0)
    return [loss / largest for loss in losses] if largest > LOSS_MAX else losses


def _axis(space: Space, dimension: Dimension) -> CubeAxis:
    axis = dimension.axis
    parent = None if dimension.parent is None else space.dimensions[dimension.parent].axis
    return CubeAxis(
        positions=tuple(map(axis.position, axis.after(None))) if _is_listed(dimension) else (),
        is_category=isinstance(axis.value(0.5), str),
        parent=dimension.parent,
        parent_positions=frozenset(
            parent.position(value) for value in dimension.parent_values if parent
        ),
    )


def _is_listed(dimension: Dimension) -> bool:
    """Words are, however many."""
    count = dimension.axis.count
    is_word = isinstance(dimension.axis.value(0.5), str)
    return count is not None and (is_word or count <= POSITIONS_MAX)


__all__ = ["CubeAxis", "Point", "forget", "propose"]

#: So many trials fill the space before the model is believed.
START: Final = 10

#: The model is fitted to at most so many points, and believes at most so many: cost is bounded.
FITTED_MAX: Final = 100
BELIEVED_MAX: Final = 200

#: With more pending than this, each point is searched for less long.
_FEW_PENDING: Final = 8

#: The fit is looked up again until the number of results has grown by this share.
_REFIT: Final = 20

#: Believed variance of the noise beside that of the values, and the deviation of its logarithm.
_NOISE: Final[Mapping[Noise, tuple[float, float]]] = {
    Noise.LOW: (math.log(1e-6), 1.0),
    Noise.DEFAULT: (-6.0, 2.0),
    Noise.HIGH: (math.log(0.1), 1.0),
}

#: Points that are drawn while the space is filled, and how many of them are compared.
_DRAWN_START: Final = 512
_FEW: Final = 8

#: The region's width: at first, at most, and below which it begins anew.
_WIDTH_FIRST: Final = 0.8
_WIDTH_MAX: Final = 1.6
_WIDTH_MIN: Final = 2.0**-7

#: So many better values in a row widen the region.
_SUCCESSES: Final = 3

#: A smaller part of the largest value is no spread: what is divided by it might overflow.
_SPREAD_MIN: Final = 1e-100

#: Steps of less than this share of the way from the median value are no progress.
_PROGRESS: Final = 1e-3


def propose(  # noqa: PLR0913  # what is known, what may be chosen and how
    points: Sequence[Point],
    values: Sequence[float],
    pending: Sequence[Point],
    *,
    axes: Sequence[CubeAxis],
    seed: int,
    noise: Noise = Noise.DEFAULT,
) -> Point:
    """The point to try next, to minimise; a pure function of its arguments.

    ``values`` belong to ``points``, in the order in which they began; NaN or infinity: the trial
    failed.  ``pending`` are points without a value yet.  Coordinates in the answer are taken from
    ``positions`` exactly, and NaN where an axis is inactive.  A known or pending point is answered
    again only where no other was found; the caller looks whether a finite space is used up.
    """
    # With one thread the sums are the same on every machine, and small ones are not slower.
    with _controller().limit(limits=1):
        rng = np.random.default_rng([seed, len(points), len(pending)])
        cube = _cube(tuple(axes))
        trial_points = np.array([*points, *pending], dtype=float).reshape(-1, len(axes))
        if len(trial_points) < START or np.isfinite(values).sum() < START // 2:
            ranked = _filling(cube, trial_points, rng)
        else:
            ranked = _improving(cube, trial_points, np.array(values, dtype=float), noise, rng)
        return _first_new(ranked, trial_points)


def forget() -> None:
    """Empty the caches, for benchmarks."""
    _fitted.cache_clear()


def _filling(cube: Cube, trial_points: Array, rng: np.random.Generator) -> Array:
    """Random points; of the first few the farthest from all that is taken comes first.

    Of few only: the farthest of many would be the corners of the cube.
    """
    drawn = cube.snapped(cube.drawn(_DRAWN_START, rng))
    if not len(trial_points):
        return drawn
    few = cube.features(drawn[:_FEW])
    gaps = few[:, None, :] - cube.features(trial_points)[None, :, :]
    order = np.argsort(-(gaps**2).sum(axis=2).min(axis=1), kind="stable")
    return np.vstack([drawn[order], drawn[_FEW:]])


def _improving(
    cube: Cube, trial_points: Array, values: Array, noise: Noise, rng: np.random.Generator
) -> Array:
    """Points by what they may improve."""
    even = standardize(values)
    indexes = _select_indexes(even, BELIEVED_MAX)
    points = trial_points[: len(values)][indexes]
    hyper = _hyper(cube, trial_points, values, noise)
    belief = posterior(hyper, cube.groups, cube.features(points), even[indexes])
    best = float(even.min())
    if len(trial_points) > len(values):
        belief = belief.given(cube.features(trial_points[len(values) :]))
    complete = np.where(np.isnan(points), cube.drawn(len(points), rng), points)
    order = np.argsort(even[indexes], kind="stable")
    ranked_points = complete[order]
    size = trust_region_width(values, START, len(cube.axes))
    region = _region(cube, points[order[0]], hyper, size)
    effort = THOROUGH if len(trial_points) - len(values) <= _FEW_PENDING else QUICK
    search = Search(cube=cube, posterior=belief, best=best, region=region, rng=rng, effort=effort)
    return search.ranked(ranked_points)


def _select_indexes(even: Array, most: int) -> NDArray[np.intp]:
    """Choose values: the newest, and the best of the others; in the order they began."""
    if len(even) <= most:
        return np.arange(len(even))
    newest = len(even) - most // 2
    best = np.argsort(even[:newest], kind="stable")[: most - most // 2]
    return np.concatenate([np.sort(best), np.arange(newest, len(even))])


def _hyper(cube: Cube, trial_points: Array, values: Array, noise: Noise) -> Hyperparameters:
    """Fit to all but the last few values, so that the next calls use the cached fit."""
    count = len(values) - len(values) % max(1, len(values) // _REFIT)
    return _fitted(cube.axes, trial_points[:count].tobytes(), values[:count].tobytes(), noise)


@lru_cache(maxsize=64)
def _fitted(
    axes: tuple[CubeAxis, ...], points: bytes, values: bytes, noise: Noise
) -> Hyperparameters:
    """Remembered only to be quick: the same arguments are answered the same."""
    cube = _cube(axes)
    even = standardize(np.frombuffer(values))
    indexes = _select_indexes(even, FITTED_MAX)
    x = cube.features(np.frombuffer(points).reshape(-1, len(axes))[indexes])
    # distances grow with the root of the dimensions, and so do the lengths that are believed in
    length = (0.5 * math.log(len(axes)) - 0.7, 0.7)
    return fitted(x, even[indexes], cube.groups, Priors(length=length, noise=_NOISE[noise]))


def _region(cube: Cube, best: Array, hyper: Hyperparameters, size: float) -> TrustRegion:
    """Around the best point, wider along axes that matter less.

    Whole where there is no slope, and along axes that the best point does not have.
    """
    reach = 0.5 * size * hyper.lengths / np.exp(np.log(hyper.lengths).mean())
    low, high = np.zeros(len(best)), np.ones(len(best))
    at = cube.columns
    low[at] = np.clip(best[at] - reach[at], 0.0, 1.0)
    high[at] = np.clip(best[at] + reach[at], 0.0, 1.0)
    absent = np.isnan(best)
    return TrustRegion(low=np.where(absent, 0.0, low), high=np.where(absent, 1.0, high))


def _first_new(ranked: Array, trial_points: Array) -> Point:
    """The best that is not taken yet, or the best of all."""
    trial_keys = _comparable(trial_points)
    rows = zip(ranked, _comparable(ranked), strict=True)
    new = next((row for row, key in rows if not (trial_keys == key).all(axis=1).any()), ranked[0])
    return tuple(float(x) for x in new)


def _comparable(rows: Array) -> Array:
    """Equal for equal points, which NaN is not."""
    return np.where(np.isnan(rows), -1.0, rows)


@lru_cache(maxsize=16)
def _cube(axes: tuple[CubeAxis, ...]) -> Cube:
    return Cube(axes)


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    """Looks for libraries once; those of this module are loaded by now."""
    return ThreadpoolController()


def standardize(values: Array) -> Array:
    """Values of mean 0 and deviation 1, in the same order; failed ones as bad as the worst.

    What is worse than the median is compressed: how bad a bad trial is says little about where
    the good ones are, and a divergent one must not drown the others.
    """
    finite = values[np.isfinite(values)]
    if not len(finite):
        return np.zeros(len(values))
    largest = float(np.abs(finite).max()) or 1.0  # squares of what is left cannot overflow
    finite = finite / largest
    filled = np.where(np.isfinite(values), values / largest, finite.max())
    middle = float(np.median(finite))
    spreads = (middle - float(np.percentile(finite, 10)), float(np.std(finite)))
    unit = next((spread for spread in spreads if spread > _SPREAD_MIN), 1.0)
    above = np.maximum(filled - middle, 0.0) / unit
    even = np.where(filled > middle, middle + unit * np.log1p(above), filled)
    even = (even - even.mean()) / (even.std() or 1.0)
    return np.asarray(even)


def trust_region_width(values: Array, start: int, axes: int) -> float:
    """How wide the region around the best point is, after all that was found so far.

    After Eriksson et al., "Scalable Global Optimization via Local Bayesian Optimization" (NeurIPS
    2019): luck doubles it, patience halves it.  It follows from the values alone, so that nothing
    is to be remembered.
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
