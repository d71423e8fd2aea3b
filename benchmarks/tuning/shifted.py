"""Defines classical functions on the unit cube, each with its optimum at a random place.

The usual place of many optima is the middle of the range, which is the first trial of a study.
Here axes run backwards and change places by seed, and functions that allow it are moved by up to a
fifth of their range.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Classic:
    """A function on a box, and its least value in so many dimensions."""

    function: Callable[[Array], float]
    low: float
    high: float
    floor: Callable[[int], float] = lambda _dimensions: 0.0
    moves: bool = True
    """Whether the function may be moved: its optimum is also the best point near the box."""


def shifted(name: str, dimensions: int, seed: int) -> tuple[Callable[[Array], float], float]:
    """Return a function on the unit cube, and its least value."""
    classic = CLASSICS[name]
    rng = np.random.default_rng([dimensions, seed, sum(map(ord, name))])
    backwards = rng.random(dimensions) < 0.5
    places = rng.permutation(dimensions)
    move = rng.uniform(-0.2, 0.2, dimensions) * classic.moves

    def value(point: Array) -> float:
        turned = np.where(backwards, 1.0 - point, point)[places] - move
        return classic.function(classic.low + (classic.high - classic.low) * turned)

    return value, classic.floor(dimensions)


def _branin(x: Array) -> float:
    a, b = 15 * x[0] - 5, 15 * x[1]
    root = b - 5.1 / (4 * math.pi**2) * a**2 + 5 / math.pi * a - 6
    return float(root**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(a) + 10)


def _camel(x: Array) -> float:
    a, b = x
    return float((4 - 2.1 * a * a + a**4 / 3) * a * a + a * b + (-4 + 4 * b * b) * b * b)


_STEEP_3 = np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
_PLACES_3 = 1e-4 * np.array(
    [[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]
)
_STEEP_6 = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
_PLACES_6 = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)
_PEAKS = np.array([1.0, 1.2, 3.0, 3.2])
_HARTMANN_FLOORS = {3: -3.86278, 6: -3.32237}


def _hartmann(x: Array) -> float:
    steep, places = (_STEEP_3, _PLACES_3) if len(x) == len(_STEEP_3[0]) else (_STEEP_6, _PLACES_6)
    return -float(_PEAKS @ np.exp(-np.sum(steep * (x - places) ** 2, axis=1)))


def _ackley(x: Array) -> float:
    root = math.sqrt(float(np.mean(x * x)))
    waves = float(np.mean(np.cos(2 * math.pi * x)))
    return -20 * math.exp(-0.2 * root) - math.exp(waves) + 20 + math.e


def _levy(x: Array) -> float:
    w = 1 + (x - 1) / 4
    inner = (w[:-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:-1] + 1) ** 2)
    last = (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)
    return float(math.sin(math.pi * w[0]) ** 2 + np.sum(inner) + last)


def _rosenbrock(x: Array) -> float:
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


def _griewank(x: Array) -> float:
    waves = np.prod(np.cos(x / np.sqrt(np.arange(1, len(x) + 1))))
    return float(np.sum(x * x) / 4000 - waves + 1)


def _michalewicz(x: Array) -> float:
    bends = np.sin(np.arange(1, len(x) + 1) * x * x / np.pi) ** 20
    return -float(np.sum(np.sin(x) * bends))


_MICHALEWICZ_FLOORS = {2: -1.8013, 5: -4.687658}


def _styblinski_tang(x: Array) -> float:
    return float(np.mean(x**4 - 16 * x**2 + 5 * x) / 2)


_SHEKEL_PLACES = np.array(
    [
        [4, 1, 8, 6, 3, 2, 5, 8, 6, 7],
        [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6],
        [4, 1, 8, 6, 3, 2, 5, 8, 6, 7],
        [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6],
    ]
)
_SHEKEL_WIDTHS = np.array([1, 2, 2, 4, 4, 6, 3, 7, 5, 5]) / 10


def _shekel(x: Array) -> float:
    away = np.sum((x[:, None] - _SHEKEL_PLACES) ** 2, axis=0)
    return -float(np.sum(1 / (away + _SHEKEL_WIDTHS)))


def _cosine(x: Array) -> float:
    return float(np.sum(x * x) - 0.1 * np.sum(np.cos(5 * math.pi * x)))


def _steps(x: Array) -> float:
    return float(np.mean(np.floor(8 * np.abs(x)) ** 2))


CLASSICS: Final[Mapping[str, Classic]] = {
    "branin": Classic(function=_branin, low=0, high=1, floor=lambda _: 0.397887, moves=False),
    "camel": Classic(function=_camel, low=-2, high=2, floor=lambda _: -1.031628),
    "hartmann": Classic(
        function=_hartmann, low=0, high=1, floor=_HARTMANN_FLOORS.__getitem__, moves=False
    ),
    "ackley": Classic(function=_ackley, low=-15, high=15),
    "levy": Classic(function=_levy, low=-10, high=10),
    "rosenbrock": Classic(function=_rosenbrock, low=-3, high=3),
    "griewank": Classic(function=_griewank, low=-60, high=60),
    "michalewicz": Classic(
        function=_michalewicz,
        low=0,
        high=math.pi,
        floor=_MICHALEWICZ_FLOORS.__getitem__,
        moves=False,
    ),
    "styblinski-tang": Classic(
        function=_styblinski_tang, low=-5, high=5, floor=lambda _: -39.166166
    ),
    "shekel": Classic(function=_shekel, low=0, high=10, floor=lambda _: -10.5364, moves=False),
    "cosine": Classic(function=_cosine, low=-1, high=1, floor=lambda d: -0.1 * d),
    "steps": Classic(function=_steps, low=-1, high=1),
}
