"""Defines functions to minimise, similar to those of BBOB, with a known optimum.

Definitions after Hansen, Finck, Ros and Auger, "Real-Parameter Black-Box Optimization Benchmarking
2009: Noiseless Functions Definitions" (INRIA RR-6829): the domain is -5..5 in each dimension, the
optimum lies at a random point within -4..4, and rotations hide the axes.  This code is not theirs.
It leaves out the boundary penalties, because no trial leaves its domain.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """The random parts of one function."""

    optimum: Array
    rotation: Array
    second: Array
    """Another rotation."""
    seed: int

    @property
    def dimensions(self) -> int:
        """The number of dimensions."""
        return len(self.optimum)

    def rotate(self, x: Array) -> Array:
        """Return the vector from the optimum to a point, in rotated axes."""
        return np.asarray(self.rotation @ (x - self.optimum))


Function = Callable[[Array, Instance], float]


def instance(dimensions: int, seed: int) -> Instance:
    """Draw the random parts of a function, by seed."""
    rng = np.random.default_rng([dimensions, seed])
    return Instance(
        optimum=rng.uniform(-4, 4, dimensions),
        rotation=_rotation(rng, dimensions),
        second=_rotation(rng, dimensions),
        seed=seed,
    )


def objective(name: str, dimensions: int, seed: int) -> Callable[[Array], float]:
    """Return a function on -5..5 in each dimension, whose least value is 0."""
    parts, function = instance(dimensions, seed), FUNCTIONS[name]

    def value(x: Array) -> float:
        return float(function(np.asarray(x, dtype=float), parts))

    return value


def _rotation(rng: np.random.Generator, dimensions: int) -> Array:
    """Draw a random orthogonal matrix."""
    q, r = np.linalg.qr(rng.standard_normal((dimensions, dimensions)))
    return np.asarray(q * np.sign(np.diag(r)))


def _powers(base: float, dimensions: int) -> Array:
    """Return values from 1 to ``base``, evenly on a log scale."""
    return np.asarray(base ** (np.arange(dimensions) / max(dimensions - 1, 1)))


def _add_waves(z: Array) -> Array:
    """Add small irregular waves to each axis (T_osz)."""
    magnitude = np.log(np.maximum(np.abs(z), 1e-300))
    fast = np.where(z > 0, 10.0, 5.5)
    slow = np.where(z > 0, 7.9, 3.1)
    waves = np.sin(fast * magnitude) + np.sin(slow * magnitude)
    return np.asarray(np.sign(z) * np.exp(magnitude + 0.049 * waves))


def _make_asymmetric(z: Array, beta: float) -> Array:
    """Make one side of each axis steeper than the other (T_asy)."""
    weight = np.arange(len(z)) / max(len(z) - 1, 1)
    root = np.sqrt(np.maximum(z, 0))
    return np.where(z > 0, np.maximum(z, 1e-300) ** (1 + beta * weight * root), z)


def sphere(x: Array, at: Instance) -> float:
    """F1: a quadratic function."""
    return float(np.sum((x - at.optimum) ** 2))


def ellipsoid(x: Array, at: Instance) -> float:
    """F10: a rotated quadratic function with a condition number of a million."""
    return float(_powers(1e6, at.dimensions) @ _add_waves(at.rotate(x)) ** 2)


def rastrigin(x: Array, at: Instance) -> float:
    """F15: about 10^D local optima on a bowl."""
    z = _make_asymmetric(_add_waves(at.rotate(x)), 0.2)
    z = at.rotation @ (_powers(10, at.dimensions) ** 0.5 * (at.second @ z))
    return float(10 * (len(z) - np.sum(np.cos(2 * np.pi * z))) + z @ z)


def rosenbrock(x: Array, at: Instance) -> float:
    """F9: a curved valley."""
    z = max(1.0, at.dimensions**0.5 / 8) * at.rotate(x) + 1
    return float(np.sum(100 * (z[:-1] ** 2 - z[1:]) ** 2 + (z[:-1] - 1) ** 2))


def step_ellipsoid(x: Array, at: Instance) -> float:
    """F7: plateaus."""
    z = _powers(10, at.dimensions) ** 0.5 * at.rotate(x)
    steps = np.where(np.abs(z) > 0.5, np.floor(0.5 + z), np.floor(0.5 + 10 * z) / 10)
    y = at.second @ steps
    return 0.1 * max(float(abs(z[0])) / 1e4, float(_powers(100, at.dimensions) @ y**2))


def different_powers(x: Array, at: Instance) -> float:
    """F14: a different steepness for each axis."""
    exponents = 2 + 4 * np.arange(at.dimensions) / max(at.dimensions - 1, 1)
    return float(np.sqrt(np.sum(np.abs(at.rotate(x)) ** exponents)))


def schwefel(x: Array, at: Instance) -> float:
    """Similar to F20: the best basin lies far from the second best; not rotated."""
    far = 420.96874633
    z = 100 * (np.abs(x) * np.sign(x * at.optimum) - np.abs(at.optimum)) + far
    inside = np.clip(z, -500, 500)
    waves = 418.9828872724339 - float(np.mean(inside * np.sin(np.sqrt(np.abs(inside)))))
    return max(waves, 0.0) + float(np.mean((z - inside) ** 2) / 100)


def griewank_rosenbrock(x: Array, at: Instance) -> float:
    """F19: a valley full of waves."""
    z = max(1.0, at.dimensions**0.5 / 8) * at.rotate(x) + 1
    s = 100 * (z[:-1] ** 2 - z[1:]) ** 2 + (z[:-1] - 1) ** 2
    return float(10 * np.mean(s / 4000 - np.cos(s)) + 10)


def weierstrass(x: Array, at: Instance) -> float:
    """F16: rough at every scale."""
    z = at.rotation @ (_powers(0.01, at.dimensions) ** 0.5 * (at.second @ _add_waves(at.rotate(x))))
    k = np.arange(12)
    waves = 0.5**k * np.cos(2 * np.pi * 3.0**k * (z[:, None] + 0.5))
    floor = float(np.sum(0.5**k * np.cos(np.pi * 3.0**k)))
    return 10 * max(float(np.mean(waves.sum(axis=1))) - floor, 0.0) ** 3


def gallagher(x: Array, at: Instance) -> float:
    """F22: 21 peaks at random places, of which one is the highest."""
    rng = np.random.default_rng([22, at.seed])
    places = np.vstack([at.optimum, rng.uniform(-4.9, 4.9, (20, at.dimensions))])
    heights = np.append(10.0, np.linspace(1.1, 9.1, 20))
    widths = rng.permuted(np.tile(_powers(100, at.dimensions) / 10, (21, 1)), axis=1)
    away = ((x - places) @ at.rotation.T) ** 2
    peaks = heights * np.exp(-np.sum(widths * away, axis=1) / (2 * at.dimensions))
    return float(10 - np.max(peaks)) ** 2


def attractive_sector(x: Array, at: Instance) -> float:
    """F6: one side is a hundred times as steep."""
    z = at.rotation @ (_powers(10, at.dimensions) ** 0.5 * (at.second @ (x - at.optimum)))
    scale = np.where(z * at.optimum > 0, 100.0, 1.0)
    return float(np.sum((scale * z) ** 2) ** 0.9)


def sharp_ridge(x: Array, at: Instance) -> float:
    """F13: a ridge with a sharp edge."""
    z = at.rotation @ (_powers(10, at.dimensions) ** 0.5 * (at.second @ (x - at.optimum)))
    return float(z[0] ** 2 + 100 * np.sqrt(np.sum(z[1:] ** 2)))


def bent_cigar(x: Array, at: Instance) -> float:
    """F12: one direction has a millionth of the weight of the others."""
    z = at.rotation @ _make_asymmetric(at.rotate(x), 0.5)
    return float(z[0] ** 2 + 1e6 * np.sum(z[1:] ** 2))


def discus(x: Array, at: Instance) -> float:
    """F11: one direction has a million times the weight of the others."""
    z = _add_waves(at.rotate(x))
    return float(1e6 * z[0] ** 2 + np.sum(z[1:] ** 2))


def schaffer(x: Array, at: Instance) -> float:
    """F17: waves that become shorter towards the optimum."""
    z = _powers(10, at.dimensions) ** 0.5 * (at.second @ _make_asymmetric(at.rotate(x), 0.5))
    s = np.sqrt(z[:-1] ** 2 + z[1:] ** 2)
    return float(np.mean(np.sqrt(s) * (1 + np.sin(50 * s**0.2) ** 2)) ** 2)


def buche_rastrigin(x: Array, at: Instance) -> float:
    """Similar to F4: waves along the axes; not rotated."""
    z = _powers(10, at.dimensions) ** 0.5 * _add_waves(x - at.optimum)
    return float(10 * (len(z) - np.sum(np.cos(2 * np.pi * z))) + z @ z)


#: The functions of every run.
FIXED: Mapping[str, Function] = {
    "sphere": sphere,
    "ellipsoid": ellipsoid,
    "rastrigin": rastrigin,
    "rosenbrock": rosenbrock,
    "step-ellipsoid": step_ellipsoid,
    "different-powers": different_powers,
    "schwefel": schwefel,
    "griewank-rosenbrock": griewank_rosenbrock,
    "weierstrass": weierstrass,
    "gallagher": gallagher,
}
#: Each run draws two of these functions.
DRAWN: Mapping[str, Function] = {
    "attractive-sector": attractive_sector,
    "sharp-ridge": sharp_ridge,
    "bent-cigar": bent_cigar,
    "discus": discus,
    "schaffer": schaffer,
    "buche-rastrigin": buche_rastrigin,
}
FUNCTIONS: Mapping[str, Function] = {**FIXED, **DRAWN}
