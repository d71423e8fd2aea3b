"""Where to look next: the logarithm of the expected improvement, stable in its tail.

After Ament et al., "Unexpected Improvements to Expected Improvement for Bayesian Optimization"
(NeurIPS 2023): the logarithm has slopes where the plain improvement is a flat zero.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr

Array = NDArray[np.float64]
_LOG_ROOT_2PI: Final = 0.5 * math.log(2.0 * math.pi)

#: Below the first the plain formula cancels, below the second Mills' ratio does too.
_TAIL: Final = -5.0
_FAR_TAIL: Final = -100.0


def log_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """The logarithm of the expected improvement below ``best``."""
    u = (best - mean) / deviation
    return np.log(deviation) + _log_h(u)


def log_improvement_slopes(
    mean: Array, deviation: Array, best: float
) -> tuple[Array, Array, Array]:
    """The same with its derivatives by mean and deviation."""
    u = (best - mean) / deviation
    log_h = _log_h(u)
    # d EI / d mean = -Phi(u), d EI / d deviation = phi(u)
    by_mean = -np.exp(log_ndtr(u) - log_h) / deviation
    by_deviation = np.exp(-0.5 * u * u - _LOG_ROOT_2PI - log_h) / deviation
    return np.log(deviation) + log_h, by_mean, by_deviation


def _log_h(u: Array) -> Array:
    """log(phi(u) + u Phi(u))."""
    near = np.maximum(u, _TAIL)
    plain = np.log(np.exp(-0.5 * near * near - _LOG_ROOT_2PI) + near * np.exp(log_ndtr(near)))
    far = np.minimum(u, _TAIL)
    # phi(u) (1 - |u| m(|u|)) with Mills' ratio m; its series where the difference would cancel
    square = far * far
    mills = 1.0 - math.sqrt(math.pi / 2.0) * -far * erfcx(-far / math.sqrt(2.0))
    series = (1.0 - (3.0 - 15.0 / square) / square) / square
    tail = np.where(far > _FAR_TAIL, np.maximum(mills, 1e-300), series)
    return np.asarray(np.where(u > _TAIL, plain, -0.5 * square - _LOG_ROOT_2PI + np.log(tail)))
