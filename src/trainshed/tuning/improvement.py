"""Expected improvement: how much a point may be better than the best one, on a logarithmic scale.

After Ament et al., "Unexpected Improvements to Expected Improvement for Bayesian Optimization"
(NeurIPS 2023): the logarithm has a slope where the expected improvement itself is zero and flat.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import erfcx, log_ndtr

from trainshed.tuning.cube import Array
from trainshed.tuning.kernel import KernelPosterior

_LOG_ROOT_2PI: Final = 0.5 * math.log(2.0 * math.pi)

#: Below the first number the plain formula loses precision, below the second Mills' ratio too.
_TAIL: Final = -5.0
_FAR_TAIL: Final = -100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedImprovement:
    """The logarithm of the expected improvement below ``best``, at features."""

    posterior: KernelPosterior
    best: float

    def score(self, features: Array) -> Array:
        """Return the score of each row."""
        return log_improvement(*self.posterior.at(features), self.best)

    def slopes(self, features: Array) -> tuple[Array, Array]:
        """Return the score of each row, and its gradient by the row's features."""
        mean, deviation, mean_slope, deviation_slope = self.posterior.slopes(features)
        score, by_mean, by_deviation = log_improvement_slopes(mean, deviation, self.best)
        return score, by_mean[:, None] * mean_slope + by_deviation[:, None] * deviation_slope


@dataclass(frozen=True, slots=True, kw_only=True)
class ImprovementScore:
    """The logarithm of the expected improvement below ``best``, by the belief about one metric."""

    best: float

    def score(self, mean: Array, deviation: Array) -> Array:
        """Return the score of each point."""
        return log_improvement(mean[0], deviation[0], self.best)

    def slopes(self, mean: Array, deviation: Array) -> tuple[Array, Array, Array]:
        """Return the score of each point, and its derivatives by its means and deviations."""
        score, by_mean, by_deviation = log_improvement_slopes(mean[0], deviation[0], self.best)
        return score, by_mean[None], by_deviation[None]


def log_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """Return the logarithm of the expected improvement below ``best``."""
    u = (best - mean) / deviation
    return np.log(deviation) + log_unit_improvement(u)


def log_improvement_slopes(
    mean: Array, deviation: Array, best: float
) -> tuple[Array, Array, Array]:
    """Return what ``log_improvement`` returns, and its derivatives by mean and deviation."""
    u = (best - mean) / deviation
    log_h = log_unit_improvement(u)
    # d EI / d mean = -Phi(u), d EI / d deviation = phi(u)
    by_mean = -np.exp(log_ndtr(u) - log_h) / deviation
    by_deviation = np.exp(-0.5 * u * u - _LOG_ROOT_2PI - log_h) / deviation
    return np.log(deviation) + log_h, by_mean, by_deviation


def log_density(u: Array) -> Array:
    """Return the logarithm of the normal density."""
    return -0.5 * u * u - _LOG_ROOT_2PI


def log_unit_improvement(u: Array) -> Array:
    """Return log(phi(u) + u Phi(u)), with the normal density phi and distribution Phi.

    It is the expected improvement of a belief with deviation 1, whose mean is ``u`` below the best.
    """
    near = np.maximum(u, _TAIL)
    logs = np.log(np.exp(-0.5 * near * near - _LOG_ROOT_2PI) + near * np.exp(log_ndtr(near)))
    is_far = u <= _TAIL
    if is_far.any():
        logs = np.asarray(logs)
        logs[is_far] = _log_unit_tail(u[is_far])
    return np.asarray(logs)


def _log_unit_tail(far: Array) -> Array:
    """Return ``log_unit_improvement`` where the plain formula loses precision."""
    # phi(u) (1 - |u| m(|u|)) with Mills' ratio m; its series where the difference would cancel
    square = far * far
    mills = 1.0 - math.sqrt(math.pi / 2.0) * -far * erfcx(-far / math.sqrt(2.0))
    series = (1.0 - (3.0 - 15.0 / square) / square) / square
    tail = np.where(far > _FAR_TAIL, np.maximum(mills, 1e-300), series)
    return np.asarray(-0.5 * square - _LOG_ROOT_2PI + np.log(tail))


def log_of_sums(logs: Array) -> Array:
    """Return the logarithm of the sum of each row's exponentials; SciPy's does far more checks."""
    largest = logs.max(axis=1)
    return np.asarray(largest + np.log(np.exp(logs - largest[:, None]).sum(axis=1)))
