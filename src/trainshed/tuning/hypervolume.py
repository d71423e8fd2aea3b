"""Expected hypervolume improvement: how much a point may add to a Pareto front, as a logarithm.

The points that no trial dominates, up to a reference point, are split into boxes; in each box the
expectation is a product over the objectives, whose beliefs are independent.  For two objectives the
boxes are strips, for three they are those of Lacour, Klamroth and Fonseca, "A box decomposition
algorithm to compute the hypervolume indicator" (2017), about two for each trial of the front.  Like
the expected improvement, it is computed as a logarithm, after Ament et al. (2023).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from trainshed.tuning.cube import Array
from trainshed.tuning.improvement import log_density, log_unit_improvement
from trainshed.tuning.kernel import KernelPosterior

#: The numbers of objectives for which there are boxes.
BOXED_MAX: Final = 3

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
    """Return what neither the front nor the reference point dominates, as boxes (2 or 3 columns).

    Rows of the front that are not better than the reference point in everything do not count.
    """
    inside = front[(front < reference).all(axis=1)]
    if front.shape[1] == BOXED_MAX - 1:
        rows = _strips(inside, reference)
    else:
        rows = _blocks(inside, reference)
    boxes = np.array(rows).reshape(-1, 2, front.shape[1])
    wide = (boxes[:, 0] < boxes[:, 1]).all(axis=1)
    return Boxes(low=boxes[wide, 0], high=boxes[wide, 1])


def _strips(front: Array, reference: Array) -> list[list[list[float]]]:
    ordered = front[np.lexsort((front[:, 1], front[:, 0]))]
    ends = np.append(ordered[:, 0], reference[0])
    tops = np.minimum.accumulate(np.append(reference[1], ordered[:, 1]))
    starts = np.append(-np.inf, ordered[:, 0])
    return [
        [[float(start), -np.inf], [float(end), float(top)]]
        for start, end, top in zip(starts, ends, tops, strict=True)
    ]


def _blocks(front: Array, reference: Array) -> list[list[list[float]]]:
    """Sweep along the third objective: a new point closes the boxes that it dominates in part."""
    right, top, back = (float(value) for value in reference)
    open_boxes = [(-np.inf, right, top, -np.inf)]
    closed: list[list[list[float]]] = []
    for x, y, z in front[np.argsort(front[:, 2], kind="stable")].tolist():
        cut = [box for box in open_boxes if box[1] > x and box[2] > y]
        if not cut:
            continue
        closed += [_block(box, z) for box in cut]
        rest = [box for box in open_boxes if box not in cut]
        first, last = cut[0], cut[-1]
        if first[0] < x:
            rest.append((first[0], x, first[2], z))
        rest.append((max(x, first[0]), last[1], y, z))
        open_boxes = sorted(rest)
    return closed + [_block(box, back) for box in open_boxes]


def _block(box: tuple[float, float, float, float], back: float) -> list[list[float]]:
    start, end, top, front = box
    return [[start, -np.inf, front], [end, top, back]]


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
        return _log_of_sums(np.sum(parts, axis=0))

    def slopes(self, features: Array) -> tuple[Array, Array]:
        """Return the score of each row, and its gradient by the row's features."""
        beliefs = [posterior.slopes(features) for posterior in self.posteriors]
        widths = [
            _Widths.of(edges, mean, deviation)
            for edges, (mean, deviation, _, _) in zip(self.edges, beliefs, strict=True)
        ]
        logs = np.sum([width.log for width in widths], axis=0)
        score = _log_of_sums(logs)
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


def _log_of_sums(logs: Array) -> Array:
    """Return the logarithm of the sum of each row's exponentials; SciPy's does far more checks."""
    largest = logs.max(axis=1)
    return np.asarray(largest + np.log(np.exp(logs - largest[:, None]).sum(axis=1)))


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
