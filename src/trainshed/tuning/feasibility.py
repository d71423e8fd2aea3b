"""The probability that a point meets all limits of a study, as a logarithm.

Each limit has a Gaussian process of its own over its excess, which is scaled so that the limit
stays visible: above it a trial is not safe.  After Gardner et al., "Bayesian Optimization with
Inequality Constraints" (ICML 2014).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import log_ndtr

from trainshed.tuning.candidates import Acquisition
from trainshed.tuning.cube import Array
from trainshed.tuning.improvement import log_density

#: A smaller share of the largest amount counts as no unit: a division by it might overflow.
_UNIT_MIN: Final = 1e-100

#: How much more a probability counts while it is below the required one.
_STEEP: Final = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledLimit:
    """The excesses of one limit for the process: mean 0 and deviation 1."""

    values: Array
    border: float
    """The scaled value of the limit itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitScore:
    """The logarithm of the probability that no value is above its border.

    Where the logarithm of a single limit's probability is below ``required`` the score falls
    steeply.
    """

    borders: Array
    """The scaled value of each limit."""
    required: float = -math.inf

    def score(self, mean: Array, deviation: Array) -> Array:
        """Return the score of each point."""
        return self._sum(np.asarray(log_ndtr((self.borders[:, None] - mean) / deviation)))

    def slopes(self, mean: Array, deviation: Array) -> tuple[Array, Array, Array]:
        """Return the score of each point, and its derivatives by its means and deviations."""
        u = (self.borders[:, None] - mean) / deviation
        logs = np.asarray(log_ndtr(u))
        by_mean = -np.exp(log_density(u) - logs) / deviation
        by_mean *= np.where(logs < self.required, 1.0 + _STEEP, 1.0)
        return self._sum(logs), by_mean, by_mean * u

    def _sum(self, logs: Array) -> Array:
        steep = _STEEP * np.minimum(logs - self.required, 0.0)
        return np.asarray((logs + steep).sum(axis=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSum:
    """A sum of scores: the logarithm of a product."""

    parts: Sequence[Acquisition]

    def score(self, features: Array) -> Array:
        """Return the score of each row."""
        return np.asarray(np.sum([part.score(features) for part in self.parts], axis=0))

    def slopes(self, features: Array) -> tuple[Array, Array]:
        """Return the score of each row, and its gradient by the row's features."""
        score, gradient = np.zeros(len(features)), np.zeros_like(features)
        for part in self.parts:
            part_score, part_gradient = part.slopes(features)
            score += part_score
            gradient += part_gradient
        return score, gradient


def scale_limit(excesses: Array) -> ScaledLimit:
    """Return scaled excesses; those of trials without a value are the worst ones.

    Large amounts are compressed on both sides: where the limit lies is learned near to it.
    """
    finite = excesses[np.isfinite(excesses)]
    if not len(finite):
        return ScaledLimit(values=np.zeros(len(excesses)), border=0.0)
    largest = float(np.abs(finite).max()) or 1.0
    filled = np.where(np.isfinite(excesses), excesses, max(float(finite.max()), 0.0)) / largest
    middle = float(np.median(np.abs(finite / largest)))
    unit = middle if middle > _UNIT_MIN else 1.0
    even = np.sign(filled) * np.log1p(np.abs(filled) / unit)
    mean, deviation = float(even.mean()), float(even.std()) or 1.0
    return ScaledLimit(values=(even - mean) / deviation, border=-mean / deviation)


def total_violation(excesses: Array) -> Array:
    """Return how far each row is beyond all limits together, in comparable units; 0: safe."""
    total = np.zeros(len(excesses))
    for column in excesses.T:
        scaled = scale_limit(column)
        total += np.maximum(scaled.values - scaled.border, 0.0)
        total[~np.isfinite(column)] += 1.0
    return total
