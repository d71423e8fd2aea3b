"""Improvement along a ray: how much farther a point may reach than all trials, as a logarithm.

The volume that a front dominates is a mean over all directions from the reference point (Zhang and
Golovin, "Random Hypervolume Scalarizations", ICML 2020).  Each trial has one of them: corners lie
along it, and a point reaches a corner if it is better in every objective.  The probability of that
is a product over the objectives, in any number of them; the improvement is a sum over the corners.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import log_ndtr, ndtri

from trainshed.tuning.cube import Array
from trainshed.tuning.improvement import log_density, log_of_sums

#: The number of corners; each is half as far from the best trial as the one before.
_CORNERS: Final = 8

#: The least share of an objective in a direction.
_SHARE_MIN: Final = 0.01

#: Corners lie up to this share of the way to the best values beyond these values, or beyond the
#: best trial.
_BEYOND: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachImprovement:
    """The logarithm of how much farther a point is expected to reach, by its beliefs."""

    corners: Array
    """One row per corner, one column per objective."""
    log_steps: Array
    """The logarithm of what each corner adds."""

    def score(self, mean: Array, deviation: Array) -> Array:
        """Return the score of each point."""
        logs = log_ndtr(self._u(mean, deviation))
        return log_of_sums(logs.sum(axis=0) + self.log_steps)

    def slopes(self, mean: Array, deviation: Array) -> tuple[Array, Array, Array]:
        """Return the score of each point, and its derivatives by its means and deviations."""
        u = self._u(mean, deviation)
        logs = log_ndtr(u)
        gains = logs.sum(axis=0) + self.log_steps
        score = log_of_sums(gains)
        hazard = np.exp(gains - score[:, None]) * np.exp(log_density(u) - logs)
        hazard /= deviation[:, :, None]
        return score, -hazard.sum(axis=2), -(hazard * u).sum(axis=2)

    def _u(self, mean: Array, deviation: Array) -> Array:
        """Return by how many deviations each corner is above each mean, by objective."""
        return np.asarray((self.corners.T[:, None, :] - mean[:, :, None]) / deviation[:, :, None])


def reach_improvement(losses: Array, reference: Array, number: int) -> ReachImprovement:
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
