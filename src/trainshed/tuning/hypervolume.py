"""Expected hypervolume improvement: how much a point may add to a Pareto front, as a logarithm.

The points that no trial dominates, up to a reference point, are split into strips; in each strip
the expectation is a product over the two objectives, whose beliefs are independent.  Like the
expected improvement, it is computed as a logarithm, after Ament et al. (2023).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from trainshed.tuning.cube import Array
from trainshed.tuning.improvement import log_density, log_of_sums, log_unit_improvement

#: A smaller share of a strip's expected width counts as this one.
_WIDTH_MIN: Final = 1e-300


def front_of(losses: Array) -> NDArray[np.intp]:
    """Return the indexes of the rows that no other row dominates; of equal rows the first."""
    front: list[int] = []
    rest = np.lexsort(losses.T[::-1])
    columns = losses[rest].T
    while len(rest):  # the first row of the rest comes before all that it dominates
        front.append(int(rest[0]))
        is_free = (columns < columns[:, :1]).any(axis=0)
        rest, columns = rest[is_free], columns[:, is_free]
    return np.array(sorted(front), dtype=np.intp)


def strips_below(front: Array, reference: Array) -> Array:
    """Return what neither the front nor the reference point dominates, as strips (2 objectives).

    The first row has the ends of the strips in the first objective, ascending, and the second row
    their tops in the second.  Each strip begins where the one before ends, and has no bottom; the
    first has no begin.  Rows of the front that are not better than the reference point in
    everything do not count.
    """
    inside = front[(front < reference).all(axis=1)]
    ordered = inside[np.lexsort((inside[:, 1], inside[:, 0]))]
    ends = np.append(ordered[:, 0], reference[0])
    tops = np.minimum.accumulate(np.append(reference[1], ordered[:, 1]))
    is_wide = np.append(-np.inf, ends[:-1]) < ends
    return np.vstack([ends, tops])[:, is_wide]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedHypervolume:
    """The logarithm of the expected gain in hypervolume, by the beliefs about two objectives.

    With u = (end - mean) / deviation of a strip's end and the expected improvement h(u), a point
    dominates deviation (h(u) - h(u of the strip before)) of its width, and deviation h(u of its
    top) of its height.
    """

    edges: Array
    """The ends of the strips in the first objective, ascending; their tops in the second."""

    def score(self, mean: Array, deviation: Array) -> Array:
        """Return the score of each point."""
        log_h = log_unit_improvement(self._u(mean, deviation))
        logs = log_h[0] + log_h[1] + np.log(_shares(log_h[0]))
        return np.asarray(log_of_sums(logs) + np.log(deviation).sum(axis=0))

    def slopes(self, mean: Array, deviation: Array) -> tuple[Array, Array, Array]:
        """Return the score of each point, and its derivatives by its means and deviations."""
        u = self._u(mean, deviation)
        log_h = log_unit_improvement(u)
        widths = _shares(log_h[0])
        logs = log_h[0] + log_h[1] + np.log(widths)
        score = log_of_sums(logs)
        weights = np.empty_like(log_h)
        weights[1] = np.exp(logs - score[:, None])
        weights[0] = weights[1] / widths
        # the end of a strip is the begin of the next
        weights[0, :, :-1] -= weights[0, :, 1:] * (1.0 - widths[:, 1:])
        by_mean = -(weights * np.exp(log_ndtr(u) - log_h)).sum(axis=2) / deviation
        by_deviation = (weights * np.exp(log_density(u) - log_h)).sum(axis=2) / deviation
        return np.asarray(score + np.log(deviation).sum(axis=0)), by_mean, by_deviation

    def _u(self, mean: Array, deviation: Array) -> Array:
        return np.asarray((self.edges[:, None, :] - mean[:, :, None]) / deviation[:, :, None])


def _shares(log_h: Array) -> Array:
    """Return the dominated width of each strip, divided by that of it and all strips before."""
    shares = np.ones_like(log_h)
    shares[:, 1:] = np.maximum(-np.expm1(log_h[:, :-1] - log_h[:, 1:]), _WIDTH_MIN)
    return shares
