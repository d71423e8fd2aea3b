"""Searches the Gaussian process's next point: everywhere, and around the best points.

In many dimensions a random point is far from everything; half of the candidates are therefore
small changes of the best points, in all or only a few coordinates.  From the best candidates the
search climbs along the slope, and then changes coordinates without a slope.

The search maximizes the logarithm of the expected improvement, after Ament et al., "Unexpected
Improvements to Expected Improvement for Bayesian Optimization" (NeurIPS 2023): the logarithm has
a slope where the expected improvement itself is zero and flat.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.optimize import minimize
from scipy.special import erfcx, log_ndtr

from trainshed.tuning.cube import Array, Cube
from trainshed.tuning.kernel import KernelPosterior

_LOG_ROOT_2PI: Final = 0.5 * math.log(2.0 * math.pi)

#: Below the first number the plain formula loses precision, below the second Mills' ratio too.
_TAIL: Final = -5.0
_FAR_TAIL: Final = -100.0

STARTS: Final = 4

#: The number of known points that are changed slightly, and the share of the best one.
_BEST: Final = 5
_FROM_BEST: Final = 0.6

#: Powers of ten between which the size of a change lies.
_SIZES: Final = (-2.5, -0.5)

#: The share of the changes that change all coordinates.
_ALL: Final = 0.5

#: Other changes change this share of the coordinates, or about two of them.
_FEW: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The effort of the search for one point."""

    drawn: int
    """Random candidates, and as many near the best points."""
    climb_steps: int
    rounds: int
    """The number of times that the search changes the coordinates without a slope."""


THOROUGH: Final = Effort(drawn=256, climb_steps=20, rounds=2)
#: The effort for one of many points that are tried at the same time.
QUICK: Final = Effort(drawn=96, climb_steps=8, rounds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustRegion:
    """The part of the cube that is searched: lowest and highest coordinates."""

    low: Array
    high: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The search for the point of the greatest expected improvement below ``best``."""

    cube: Cube
    posterior: KernelPosterior
    best: float
    region: TrustRegion
    rng: np.random.Generator
    effort: Effort = THOROUGH

    def rank(self, points: Array) -> Array:
        """Return allowed points, the best first, from known ``points`` (complete, best first)."""
        everywhere = self._sort(self._clip(self.cube.draw(self.effort.drawn, self.rng)))
        nearby = self._sort(self._clip(self._vary_best(points)))
        half = STARTS // 2
        rows = np.vstack([everywhere[:half], nearby[:half]])
        rows = self._sort(np.vstack([self._climb(rows), everywhere, nearby]))
        for _ in range(self.effort.rounds):
            neighbours = self.cube.neighbours(rows[0], self.rng)
            if not len(neighbours):
                break
            neighbours = self._sort(neighbours)
            rows = self._sort(np.vstack([rows, neighbours, self._climb(neighbours[:1])]))
        return self.cube.snap(rows)

    def _vary_best(self, points: Array) -> Array:
        """Return small changes of the best rows; a listed axis changes to any of its positions."""
        best = points[:_BEST]
        count, axes = self.effort.drawn, points.shape[1]
        chosen = self.rng.integers(len(best), size=count)
        chosen[self.rng.random(count) < _FROM_BEST] = 0
        sizes = 10.0 ** self.rng.uniform(*_SIZES, (count, 1))
        share = np.where(self.rng.random((count, 1)) < _ALL, 1.0, max(_FEW, 2.0 / axes))
        changed = self.rng.random((count, axes)) < share
        rows = best[chosen] + sizes * changed * self.rng.standard_normal((count, axes))
        jumps = self.rng.random((count, axes)) < np.minimum(_FEW, 1.0 / axes)
        jumps[:, self.cube.columns] = False
        return np.where(jumps, self.cube.draw(count, self.rng), rows)

    def _clip(self, rows: Array) -> Array:
        return np.clip(rows, self.region.low, self.region.high)

    def _sort(self, rows: Array) -> Array:
        features = self.cube.features(self.cube.snap(rows))
        score = log_improvement(*self.posterior.at(features), self.best)
        return np.asarray(rows[np.argsort(-score, kind="stable")])

    def _climb(self, rows: Array) -> Array:
        """Return the rows moved along the slope, all at once: their scores are independent."""
        points = self.cube.snap(rows)
        features = self.cube.features(points)
        free = ~np.isnan(points[:, self.cube.columns])
        if not free.any():
            return rows
        at = (np.nonzero(free)[0], self.cube.places[np.nonzero(free)[1]])
        axes = self.cube.groups[at[1]]
        optimum = minimize(
            self._descent,
            features[at],
            args=(features, at),
            jac=True,
            method="L-BFGS-B",
            bounds=np.column_stack([self.region.low[axes], self.region.high[axes]]),
            options={"maxiter": self.effort.climb_steps},
        )
        moved = rows.copy()
        moved[at[0], axes] = optimum.x
        return moved

    def _descent(
        self, moved: Array, features: Array, at: tuple[Array, Array]
    ) -> tuple[float, Array]:
        """Return minus the sum of all scores, and its gradient by the moved coordinates."""
        rows = features.copy()
        rows[at] = moved
        mean, deviation, mean_slope, deviation_slope = self.posterior.slopes(rows)
        score, by_mean, by_deviation = log_improvement_slopes(mean, deviation, self.best)
        slope = by_mean[:, None] * mean_slope + by_deviation[:, None] * deviation_slope
        return -float(score.sum()), -slope[at]


def log_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """Return the logarithm of the expected improvement below ``best``."""
    u = (best - mean) / deviation
    return np.log(deviation) + _log_h(u)


def log_improvement_slopes(
    mean: Array, deviation: Array, best: float
) -> tuple[Array, Array, Array]:
    """Return what ``log_improvement`` returns, and its derivatives by mean and deviation."""
    u = (best - mean) / deviation
    log_h = _log_h(u)
    # d EI / d mean = -Phi(u), d EI / d deviation = phi(u)
    by_mean = -np.exp(log_ndtr(u) - log_h) / deviation
    by_deviation = np.exp(-0.5 * u * u - _LOG_ROOT_2PI - log_h) / deviation
    return np.log(deviation) + log_h, by_mean, by_deviation


def _log_h(u: Array) -> Array:
    """Return log(phi(u) + u Phi(u)), with the normal density phi and distribution Phi."""
    near = np.maximum(u, _TAIL)
    plain = np.log(np.exp(-0.5 * near * near - _LOG_ROOT_2PI) + near * np.exp(log_ndtr(near)))
    far = np.minimum(u, _TAIL)
    # phi(u) (1 - |u| m(|u|)) with Mills' ratio m; its series where the difference would cancel
    square = far * far
    mills = 1.0 - math.sqrt(math.pi / 2.0) * -far * erfcx(-far / math.sqrt(2.0))
    series = (1.0 - (3.0 - 15.0 / square) / square) / square
    tail = np.where(far > _FAR_TAIL, np.maximum(mills, 1e-300), series)
    return np.asarray(np.where(u > _TAIL, plain, -0.5 * square - _LOG_ROOT_2PI + np.log(tail)))
