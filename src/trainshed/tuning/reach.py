"""Improvement along a ray: how much farther a point may reach than all trials, as a logarithm.

The volume that a front dominates is a mean over all directions from the reference point (Zhang and
Golovin, "Random Hypervolume Scalarizations", ICML 2020).  Each trial has one of them: corners lie
along it, and a point reaches a corner if it is better in every objective.  The probability of that
is a product over the objectives, in any number of them; the improvement is a sum over the corners.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import log_ndtr, ndtri

from trainshed.tuning.cube import Array
from trainshed.tuning.improvement import log_density, log_of_sums
from trainshed.tuning.kernel import KernelPosterior

#: The number of corners; each is half as far from the best trial as the one before.
_CORNERS: Final = 8

#: The least share of an objective in a direction.
_SHARE_MIN: Final = 0.01

#: Corners lie up to this share of the way to the best values beyond these values, or beyond the
#: best trial.
_BEYOND: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachImprovement:
    """The logarithm of how much farther a point is expected to reach, at features."""

    posteriors: Sequence[KernelPosterior]
    corners: Array
    """One row per corner, one column per objective."""
    log_steps: Array
    """The logarithm of what each corner adds."""

    def score(self, features: Array) -> Array:
        """Return the score of each row."""
        beliefs = [posterior.at(features) for posterior in self.posteriors]
        return log_of_sums(self._log_gains(self._log_probabilities(beliefs)))

    def slopes(self, features: Array) -> tuple[Array, Array]:
        """Return the score of each row, and its gradient by the row's features."""
        beliefs = [posterior.slopes(features) for posterior in self.posteriors]
        logs = self._log_probabilities([(mean, deviation) for mean, deviation, _, _ in beliefs])
        gains = self._log_gains(logs)
        score = log_of_sums(gains)
        shares = np.exp(gains - score[:, None])
        gradient = np.zeros_like(features)
        for corner, log, belief in zip(self.corners.T, logs, beliefs, strict=True):
            mean, deviation, mean_slope, deviation_slope = belief
            u = (corner - mean[:, None]) / deviation[:, None]
            hazard = shares * np.exp(log_density(u) - log) / deviation[:, None]
            gradient -= hazard.sum(axis=1)[:, None] * mean_slope
            gradient -= (hazard * u).sum(axis=1)[:, None] * deviation_slope
        return score, gradient

    def _log_probabilities(self, beliefs: Sequence[tuple[Array, Array]]) -> list[Array]:
        """Return for each objective how probably each row is better than each corner."""
        return [
            np.asarray(log_ndtr((corner - mean[:, None]) / deviation[:, None]))
            for corner, (mean, deviation) in zip(self.corners.T, beliefs, strict=True)
        ]

    def _log_gains(self, logs: Sequence[Array]) -> Array:
        return np.asarray(np.sum(logs, axis=0) + self.log_steps)


def reach_improvement(
    posteriors: Sequence[KernelPosterior], losses: Array, reference: Array, number: int
) -> ReachImprovement:
    """Return the improvement of a trial with this number on the scaled losses of the others."""
    best = losses.min(axis=0)
    shares = np.maximum(direction(number, losses.shape[1]), _SHARE_MIN)
    ray = shares * (reference - best)
    reached = max(float(((reference - losses) / ray).min(axis=1).max()), 0.0)
    possible = 1.0 / float(shares.max())
    room = max((1.0 + _BEYOND) * possible - reached, _BEYOND * possible)
    ends = np.append(room * 0.5 ** np.arange(_CORNERS), 0.0)
    middles = reached + (ends[1:] + ends[:-1]) / 2.0
    return ReachImprovement(
        posteriors=posteriors,
        corners=reference - middles[:, None] * ray,
        log_steps=np.log(ends[:-1] - ends[1:]),
    )


def direction(number: int, count: int) -> Array:
    """Return a direction of length 1 without negative parts; all numbers together are even.

    The sequence is that of the powers of the generalised golden ratio.
    """
    ratio = 2.0
    for _ in range(60):
        ratio = (1.0 + ratio) ** (1.0 / (count + 1))
    even = (0.5 + number * ratio ** -np.arange(1.0, count + 1.0)) % 1.0
    normal = ndtri(0.5 + 0.5 * even)
    return np.asarray(normal / np.linalg.norm(normal))
