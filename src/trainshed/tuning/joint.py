"""The Gaussian processes of several metrics after the same points, computed together.

A search asks them for a few points at a time, so that the time goes to the calls of NumPy and not
to its sums: one call for all metrics takes hardly longer than a call for one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from scipy.linalg.lapack import dtrtri

from trainshed.tuning.cube import Array
from trainshed.tuning.kernel import KernelPosterior

#: The number of covariances that are computed at once: they stay in the processor's cache.
_CACHED: Final = 1 << 14

#: The least variance of a belief.
_VARIANCE_MIN: Final = 1e-12

#: Computes a score and its derivatives from means and deviations, as ``BeliefScore.slopes`` does.
Slopes = Callable[[Array, Array], tuple[Array, Array, Array]]


class BeliefScore(Protocol):
    """A score of beliefs: means and deviations with a row per metric, and a column per point."""

    def score(self, mean: Array, deviation: Array) -> Array:
        """Return the score of each point."""

    def slopes(self, mean: Array, deviation: Array) -> tuple[Array, Array, Array]:
        """Return the score of each point, and its derivatives by its means and deviations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointPosterior:
    """The posteriors of several metrics; the first axis of each array is that of the metrics.

    Features are divided by the lengths and multiplied by the root of 5, which Matern's kernel has
    before every distance.  The variance of the signal is a factor of ``weights`` and ``halves``.
    """

    factors: Array
    """The factors of the features: by metric, one row, feature."""
    x: Array
    """The points: by metric, point, feature."""
    for_squares: Array
    """What a row of features, its square and 1 is multiplied by to get its squared distances."""
    weights: Array
    halves: Array
    """The transposed inverse of the Cholesky factor of the covariance of the observations."""
    scales: Array
    """The variances of the signals, in a column; so are ``means``."""
    means: Array

    def at(self, features: Array) -> tuple[Array, Array]:
        """Return means and deviations (without noise) at some points, by metric and point."""
        metrics, points = self.weights.shape
        means = np.empty((metrics, len(features)))
        deviations = np.empty_like(means)
        count = max(_CACHED // (metrics * points), 1)
        for begin in range(0, len(features), count):
            part = slice(begin, begin + count)
            k, _, _, _ = self._cross(features[part])
            means[:, part] = self._mean(k)
            deviations[:, part] = self._deviation(np.matmul(k, self.halves))
        return means, deviations

    def climb(self, features: Array, slopes: Slopes) -> tuple[Array, Array]:
        """Return the score of the beliefs at each row of features, and its gradient by the row."""
        k, r, decay, z = self._cross(features)
        half = np.matmul(k, self.halves)
        deviation = self._deviation(half)
        score, by_mean, by_deviation = slopes(self._mean(k), deviation)
        pull = np.matmul(half, self.halves.transpose(0, 2, 1))
        pull *= -(by_deviation / deviation)[:, :, None]
        pull += by_mean[:, :, None] * self.weights[:, None, :]
        pull *= (r + 1.0) * decay  # the kernel's slope by the squared distance, times -6
        moved = np.matmul(pull, self.x) - pull.sum(axis=2)[:, :, None] * z
        return score, np.asarray(np.sum(moved * self.factors, axis=0) / 3.0)

    def _cross(self, features: Array) -> tuple[Array, Array, Array, Array]:
        """Return covariances with the data, distances, their decays, and scaled features."""
        z = features * self.factors
        squares = np.sum(z * z, axis=2)[:, :, None]
        r = np.matmul(np.concatenate([z, squares, np.ones_like(squares)], axis=2), self.for_squares)
        np.sqrt(np.maximum(r, 0.0, out=r), out=r)
        # in place: the memory of large matrices costs more than the sums
        k = r / 3.0
        k += 1.0
        k *= r
        k += 1.0
        decay = np.negative(r)
        np.exp(decay, out=decay)
        k *= decay
        return k, r, decay, z

    def _mean(self, k: Array) -> Array:
        return np.asarray(np.matmul(k, self.weights[:, :, None])[:, :, 0] + self.means)

    def _deviation(self, half: Array) -> Array:
        variance = self.scales - np.einsum("mij,mij->mi", half, half)
        return np.asarray(np.sqrt(np.maximum(variance, _VARIANCE_MIN)))


def join(posteriors: Sequence[KernelPosterior]) -> JointPosterior:
    """Return the posteriors of several metrics, which have the same points."""
    factors = np.stack([math.sqrt(5.0) / belief.lengths for belief in posteriors])[:, None, :]
    x = posteriors[0].x * factors
    squares = np.sum(x * x, axis=2)[:, None, :]
    scales = np.array([belief.hyper.scale for belief in posteriors])
    halves = np.stack([dtrtri(belief.lower, lower=1)[0].T for belief in posteriors])
    return JointPosterior(
        factors=factors,
        x=x,
        for_squares=np.concatenate(
            [-2.0 * x.transpose(0, 2, 1), np.ones_like(squares), squares], axis=1
        ),
        weights=scales[:, None] * np.stack([belief.weights for belief in posteriors]),
        halves=scales[:, None, None] * halves,
        scales=scales[:, None],
        means=np.array([[belief.mean] for belief in posteriors]),
    )
