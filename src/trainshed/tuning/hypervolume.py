"""Expected hypervolume improvement: how much a point may add to a Pareto front, as a logarithm.

The points that no trial dominates, up to a reference point, are split into strips; in each strip
the expectation is a product over the two objectives, whose beliefs are independent.  Like the
expected improvement, it is computed as a logarithm, after Ament et al. (2023).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from trainshed.tuning.cube import Array
from trainshed.tuning.improvement import log_density, log_of_sums, log_unit_improvement
from trainshed.tuning.kernel import KernelPosterior

#: A smaller share of a box's expected width counts as this one.
_WIDTH_MIN: Final = 1e-300

#: An edge at minus infinity counts as this many deviations away: its square is still finite.
_FAR: Final = -1e150


@dataclass(frozen=True, slots=True, kw_only=True)
class Boxes:
    """Boxes without a common inside; one row per box, one column per objective."""

    low: Array
    """Minus infinity in a direction in which a box has no end."""
    high: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """The different edges of all boxes in one objective, and which of them each box has."""

    values: Array
    low: NDArray[np.intp]
    high: NDArray[np.intp]


def front_of(losses: Array) -> NDArray[np.intp]:
    """Return the indexes of the rows that no other row dominates; of equal rows the first."""
    front: list[int] = []
    rest = np.lexsort(losses.T[::-1])
    while len(rest):  # the first row of the rest comes before all that it dominates
        front.append(int(rest[0]))
        rest = rest[(losses[rest] < losses[rest[0]]).any(axis=1)]
    return np.array(sorted(front), dtype=np.intp)


def boxes_below(front: Array, reference: Array) -> Boxes:
    """Return what neither the front nor the reference point dominates, as boxes (2 columns).

    Rows of the front that are not better than the reference point in everything do not count.
    """
    inside = front[(front < reference).all(axis=1)]
    ordered = inside[np.lexsort((inside[:, 1], inside[:, 0]))]
    ends = np.append(ordered[:, 0], reference[0])
    tops = np.minimum.accumulate(np.append(reference[1], ordered[:, 1]))
    starts = np.append(-np.inf, ordered[:, 0])
    low = np.column_stack([starts, np.full(len(starts), -np.inf)])
    high = np.column_stack([ends, tops])
    wide = (low < high).all(axis=1)
    return Boxes(low=low[wide], high=high[wide])


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedHypervolume:
    """The logarithm of the expected hypervolume that a point adds, at features."""

    posteriors: Sequence[KernelPosterior]
    edges: Sequence[Edges]

    def score(self, features: Array) -> Array:
        """Return the score of each row."""
        parts = [
            _Widths.of(edges, *posterior.at(features)).log
            for posterior, edges in zip(self.posteriors, self.edges, strict=True)
        ]
        return log_of_sums(np.sum(parts, axis=0))

    def slopes(self, features: Array) -> tuple[Array, Array]:
        """Return the score of each row, and its gradient by the row's features."""
        beliefs = [posterior.slopes(features) for posterior in self.posteriors]
        widths = [
            _Widths.of(edges, mean, deviation)
            for edges, (mean, deviation, _, _) in zip(self.edges, beliefs, strict=True)
        ]
        logs = np.sum([width.log for width in widths], axis=0)
        score = log_of_sums(logs)
        shares = np.exp(logs - score[:, None])
        gradient = np.zeros_like(features)
        for width, (_, _, mean_slope, deviation_slope) in zip(widths, beliefs, strict=True):
            by_mean, by_deviation = width.slopes(shares)
            gradient += by_mean[:, None] * mean_slope + by_deviation[:, None] * deviation_slope
        return score, gradient


def edges_of(boxes: Boxes) -> tuple[Edges, ...]:
    """Return the edges of the boxes in each objective."""
    all_edges = []
    for low, high in zip(boxes.low.T, boxes.high.T, strict=True):
        values, indexes = np.unique(np.concatenate([low, high]), return_inverse=True)
        all_edges.append(Edges(values=values, low=indexes[: len(low)], high=indexes[len(low) :]))
    return tuple(all_edges)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Widths:
    """The expected widths of what a point dominates of each box in one objective.

    One row for each point; with u = (edge - mean) / deviation of an edge and the expected
    improvement h(u), the width is deviation (h(u high) - h(u low)).
    """

    edges: Edges
    deviation: Array
    u: Array
    log_h: Array
    share: Array = field(repr=False)
    """The width divided by deviation h(u high)."""

    @classmethod
    def of(cls, edges: Edges, mean: Array, deviation: Array) -> "_Widths":
        u = (edges.values - mean[:, None]) / deviation[:, None]
        u = np.maximum(u, _FAR)
        logs = log_unit_improvement(u)
        below = logs[:, edges.low] - logs[:, edges.high]
        share = np.maximum(-np.expm1(below), _WIDTH_MIN)
        return cls(edges=edges, deviation=deviation, u=u, log_h=logs, share=share)

    @property
    def log(self) -> Array:
        """Return the logarithms of the widths."""
        logs = np.log(self.deviation)[:, None] + self.log_h[:, self.edges.high]
        return np.asarray(logs + np.log(self.share))

    def slopes(self, shares: Array) -> tuple[Array, Array]:
        """Return the means of the logarithms' slopes by mean and deviation, weighted by box."""
        weight = shares / self.share / self.deviation[:, None]
        by_mean = self._between(log_ndtr(self.u))
        by_deviation = self._between(log_density(self.u))
        return -(weight * by_mean).sum(axis=1), (weight * by_deviation).sum(axis=1)

    def _between(self, logs: Array) -> Array:
        """Return the difference of a function's values at both edges, divided by h(u high)."""
        top = self.log_h[:, self.edges.high]
        values = np.exp(logs[:, self.edges.high] - top)
        return np.asarray(values - np.exp(logs[:, self.edges.low] - top))
