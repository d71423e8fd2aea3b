"""A small Gaussian process: Matern 5/2, a length scale per axis, fitted with analytic gradients.

Available samplers need a deep-learning library for a Gaussian process.  This module needs NumPy
and SciPy only, and takes a few milliseconds at the sizes of a study.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotri, dpotrs
from scipy.optimize import fmin_l_bfgs_b

Array = NDArray[np.float64]
ROOT5: Final = math.sqrt(5.0)
JITTER: Final = 1e-8

#: The tolerance at which fits stop; the last digits of a length do not matter.
STEPS: Final = 20

_LENGTHS: Final = (5e-3, 1e3)
_SCALES: Final = (1e-3, 1e2)
_NOISES: Final = (1e-7, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Priors:
    """Normal priors of the logarithms: (mean, deviation)."""

    length: tuple[float, float]
    noise: tuple[float, float]
    scale: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyperparameters:
    """The fitted values: a length per axis, the variances of the signal and of the noise."""

    lengths: Array
    scale: float
    noise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPosterior:
    """The posterior after observations at ``x`` (features)."""

    hyper: Hyperparameters
    groups: NDArray[np.intp]
    x: Array
    lengths: Array
    """The lengths of the features."""
    scaled: Array
    """The points, divided by the lengths."""
    lower: Array
    """The Cholesky factor of the covariance of the observations."""
    weights: Array
    mean: float

    def at(self, z: Array) -> tuple[Array, Array]:
        """Return means and deviations (without noise) at some points."""
        k, _ = self._cross(z)
        half = solve_triangular(self.lower, k.T, lower=True, check_finite=False)
        half *= half
        variance = self.hyper.scale - np.sum(half, axis=0)
        return self.mean + k @ self.weights, np.sqrt(np.maximum(variance, 1e-12))

    def slopes(self, z: Array) -> tuple[Array, Array, Array, Array]:
        """Return means and deviations at some points, and the gradients of both."""
        k, steep = self._cross(z)
        pulled = _solve(self.lower, k.T).T
        variance = np.maximum(self.hyper.scale - np.sum(pulled * k, axis=1), 1e-12)
        deviation = np.sqrt(variance)
        by_square = 1.0 / self.lengths**2
        to_mean = steep * self.weights
        to_variance = -2.0 * steep * pulled
        mean_slope = 2.0 * by_square * (to_mean.sum(1)[:, None] * z - to_mean @ self.x)
        spread = 2.0 * by_square * (to_variance.sum(1)[:, None] * z - to_variance @ self.x)
        return (
            self.mean + k @ self.weights,
            deviation,
            mean_slope,
            spread / (2.0 * deviation[:, None]),
        )

    def condition_on(self, z: Array, y: Array | None = None) -> "KernelPosterior":
        """Return the posterior with ``z`` observed too, at its expected values or ``y``."""
        expected = self.at(z)[0] if y is None else y
        values = np.append(self._restore_values(), expected)
        return posterior(self.hyper, self.groups, np.vstack([self.x, z]), values)

    def _restore_values(self) -> Array:
        return np.asarray(self.lower @ (self.lower.T @ self.weights) + self.mean)

    def _cross(self, z: Array) -> tuple[Array, Array]:
        """Return covariances with the data, and their derivative by the squared distance."""
        return matern(squares(z / self.lengths, self.scaled), self.hyper.scale)


def squares(a: Array, b: Array) -> Array:
    """Return the squared distance of each row of ``a`` to each row of ``b``."""
    products = a @ b.T
    products *= 2.0
    gap = np.sum(a * a, axis=1)[:, None] + np.sum(b * b, axis=1)
    gap -= products
    return np.asarray(np.maximum(gap, 0.0, out=gap))


def matern(square: Array, scale: float) -> tuple[Array, Array]:
    """Return the kernel at squared distances, and its derivative by the squared distance."""
    # in place: the memory of large matrices costs more than the sums
    r = np.sqrt(square)
    r *= ROOT5
    decay = np.negative(r)
    np.exp(decay, out=decay)
    decay *= scale
    slope = r + 1.0
    slope *= decay
    r *= r
    r *= decay
    r /= 3.0
    r += slope
    slope *= -5.0 / 6.0
    return r, slope


def posterior(
    hyper: Hyperparameters, groups: NDArray[np.intp], x: Array, y: Array
) -> KernelPosterior:
    """Return the posterior after observing ``y`` at ``x``."""
    lengths = hyper.lengths[groups]
    scaled = x / lengths
    k, _ = matern(squares(scaled, scaled), hyper.scale)
    np.fill_diagonal(k, hyper.scale + hyper.noise + JITTER)
    lower = np.asarray(np.linalg.cholesky(k), dtype=np.float64)
    ones = _solve(lower, np.ones(len(y)))
    mean = float(ones @ y) / float(ones.sum() + 1.0)
    return KernelPosterior(
        hyper=hyper,
        groups=groups,
        x=x,
        lengths=lengths,
        scaled=scaled,
        lower=lower,
        weights=_solve(lower, y - mean),
        mean=mean,
    )


def fit_hyperparameters(  # noqa: PLR0913  # the data, what is assumed, and the effort
    x: Array,
    y: Array,
    groups: NDArray[np.intp],
    priors: Priors,
    starts: Sequence[float] = (0.0, -1.0),
    *,
    steps: int = STEPS,
) -> Hyperparameters:
    """Return the most probable parameters.

    Each fit starts with all lengths at their prior mean, moved by one of ``starts`` (logarithms),
    and has at most ``steps`` steps.
    """
    axes = int(groups.max()) + 1
    bounds = [*[_LENGTHS] * axes, _SCALES, _NOISES]
    fits = [
        fmin_l_bfgs_b(
            loss,
            [length] * axes + [0.0, priors.noise[0]],
            args=(x, y, groups, priors),
            bounds=np.log(bounds),
            maxiter=steps,
        )
        for length in (priors.length[0] + start for start in starts)
    ]
    best, _, _ = min(fits, key=lambda fit: float(fit[1]))
    values = np.exp(best)
    return Hyperparameters(
        lengths=values[:axes], scale=float(values[axes]), noise=float(values[axes + 1])
    )


def loss(
    theta: Array, x: Array, y: Array, groups: NDArray[np.intp], priors: Priors
) -> tuple[float, Array]:
    """Return minus the logarithm of the posterior density, and its gradient."""
    axes = len(theta) - 2
    lengths, scale, noise = np.exp(theta[:axes]), math.exp(theta[axes]), math.exp(theta[-1])
    scaled = x / lengths[groups]
    k, steep = matern(squares(scaled, scaled), scale)
    signal = k.copy()
    np.fill_diagonal(signal, scale)
    np.fill_diagonal(k, scale + noise + JITTER)
    try:
        lower = np.asarray(np.linalg.cholesky(k), dtype=np.float64)
    except np.linalg.LinAlgError:
        return 1e10, np.zeros_like(theta)
    inverse = _inverse(lower)
    ones = inverse.sum(axis=1)
    mean = float(ones @ y) / float(ones.sum() + 1.0)
    weights = inverse @ (y - mean)
    value = 0.5 * float((y - mean) @ weights) + float(np.log(np.diag(lower)).sum()) + 0.5 * mean**2
    pull = inverse - np.outer(weights, weights)
    sloped = pull * steep
    rows = sloped.sum(axis=1)
    per_feature = 2.0 * (rows @ scaled**2 - np.sum(scaled * (sloped @ scaled), axis=0))
    gradient = np.zeros_like(theta)
    gradient[:axes] = -np.bincount(groups, per_feature, axes)
    gradient[axes] = 0.5 * float(np.sum(pull * signal))
    gradient[-1] = 0.5 * noise * float(np.trace(pull))
    return _with_priors(theta, value, gradient, priors)


def _with_priors(
    theta: Array, value: float, gradient: Array, priors: Priors
) -> tuple[float, Array]:
    axes = len(theta) - 2
    beliefs: Sequence[tuple[float, float]] = [priors.length] * axes + [priors.scale, priors.noise]
    means, deviations = np.array(beliefs).T
    away = (theta - means) / deviations
    return value + 0.5 * float(away @ away), gradient + away / deviations


def _solve(lower: Array, y: Array) -> Array:
    """Return the solution for the matrix with this Cholesky factor; SciPy's checks take longer."""
    solution, _ = dpotrs(lower, y, lower=1)
    return np.asarray(solution)


def _inverse(lower: Array) -> Array:
    """Return the inverse of the matrix with this Cholesky factor."""
    half, _ = dpotri(lower, lower=1)  # above the diagonal it keeps the zeros of the factor
    inverse = half + half.T
    np.fill_diagonal(inverse, half.diagonal())
    return np.asarray(inverse)
