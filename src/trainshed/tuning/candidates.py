"""Searches the Gaussian process's next point: everywhere, and around the best points.

In many dimensions a random point is far from everything; half of the candidates are therefore
small changes of the best points, in all or only a few coordinates.  From the best candidates the
search climbs along the slope, and then changes coordinates without a slope.

The search maximizes any score that is the logarithm of a value: one that has a slope also where the
value itself is zero and flat.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from scipy.optimize import fmin_l_bfgs_b

from trainshed.tuning.cube import Array, Cube

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
    climb_gain_min: float | None = None
    """A climb ends when a step gains less than this, all starts together; None: when a step gains
    less than SciPy's share of the score, which is in the last digits."""


THOROUGH: Final = Effort(drawn=256, climb_steps=20, rounds=2)
#: The effort for one of many points that are tried at the same time.
QUICK: Final = Effort(drawn=96, climb_steps=8, rounds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustRegion:
    """The part of the cube that is searched: lowest and highest coordinates."""

    low: Array
    high: Array


class Acquisition(Protocol):
    """How promising a point is, as a logarithm; every row of features is scored on its own."""

    def score(self, features: Array) -> Array:
        """Return the score of each row."""

    def slopes(self, features: Array) -> tuple[Array, Array]:
        """Return the score of each row, and its gradient by the row's features."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The search for the point of the greatest ``acquisition``."""

    cube: Cube
    acquisition: Acquisition
    region: TrustRegion
    rng: np.random.Generator
    effort: Effort = THOROUGH
    scores_again: bool = False
    """Whether known rows are scored again beside new ones, as the first rule of the search does:
    the last digits of a sum may depend on the number of rows."""

    def rank(self, points: Array) -> Array:
        """Return allowed points, the best first, from known ``points`` (complete, best first)."""
        everywhere = self._scored(self._clip(self.cube.draw(self.effort.drawn, self.rng))).sorted()
        nearby = self._scored(self._clip(self._vary_best(points))).sorted()
        half = STARTS // 2
        starts = _join([everywhere.first(half), nearby.first(half)])
        ranked = self._merged(self._scored(self._climb(starts)), everywhere, nearby)
        for _ in range(self.effort.rounds):
            rows = self.cube.neighbours(ranked.rows[0], self.rng)
            if not len(rows):
                break
            neighbours = self._scored(rows).sorted()
            climbed = self._scored(self._climb(neighbours.first(1)))
            ranked = self._merged(ranked, neighbours, climbed)
        return self.cube.snap(ranked.rows)

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

    def _scored(self, rows: Array) -> "_Scored":
        features = self.cube.features(self.cube.snap(rows))
        return _Scored(rows=rows, scores=self.acquisition.score(features))

    def _merged(self, *parts: "_Scored") -> "_Scored":
        merged = _join(parts)
        return (self._scored(merged.rows) if self.scores_again else merged).sorted()

    def _climb(self, starts: "_Scored") -> Array:
        """Return the rows moved along the slope, all at once: their scores are independent."""
        rows = starts.rows
        points = self.cube.snap(rows)
        features = self.cube.features(points)
        free = ~np.isnan(points[:, self.cube.columns])
        if not free.any():
            return rows
        at = (np.nonzero(free)[0], self.cube.places[np.nonzero(free)[1]])
        axes = self.cube.groups[at[1]]
        optimum, _, _ = fmin_l_bfgs_b(
            self._descent,
            features[at],
            args=(features, at),
            bounds=np.column_stack([self.region.low[axes], self.region.high[axes]]),
            maxiter=self.effort.climb_steps,
            **self._tolerance(starts.scores),
        )
        moved = rows.copy()
        moved[at[0], axes] = optimum
        return moved

    def _tolerance(self, scores: Array) -> dict[str, float]:
        """Return when a climb from some scores ends, as an option: a share of their sum."""
        if self.effort.climb_gain_min is None:
            return {}
        share = self.effort.climb_gain_min / max(abs(float(scores.sum())), 1.0)
        return {"factr": share / np.finfo(np.float64).eps}

    def _descent(
        self, moved: Array, features: Array, at: tuple[Array, Array]
    ) -> tuple[float, Array]:
        """Return minus the sum of all scores, and its gradient by the moved coordinates."""
        rows = features.copy()
        rows[at] = moved
        score, slope = self.acquisition.slopes(rows)
        return -float(score.sum()), -slope[at]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored:
    """Complete rows and their scores."""

    rows: Array
    scores: Array

    def first(self, count: int) -> "_Scored":
        """Return the first rows."""
        return _Scored(rows=self.rows[:count], scores=self.scores[:count])

    def sorted(self) -> "_Scored":
        """Return the best first; of equal ones the first."""
        order = np.argsort(-self.scores, kind="stable")
        return _Scored(rows=self.rows[order], scores=self.scores[order])


def _join(parts: Sequence[_Scored]) -> _Scored:
    return _Scored(
        rows=np.vstack([part.rows for part in parts]),
        scores=np.concatenate([part.scores for part in parts]),
    )
