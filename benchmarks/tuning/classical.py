"""Defines classical functions to minimise, with known optima: Branin, Hartmann and others.

Definitions after Surjanovic and Bingham, "Virtual Library of Simulation Experiments"
(https://www.sfu.ca/~ssurjano/optimization.html).
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

BRANIN_BOUNDS: Final = ((-5.0, 10.0), (0.0, 15.0))
BRANIN_MIN: Final = 0.39788735772973816
HARTMANN_MIN: Final = -3.322368011415512
_HARTMANN_WEIGHTS: Final = np.array([1.0, 1.2, 3.0, 3.2])
_HARTMANN_WIDTHS: Final = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
_HARTMANN_CENTERS: Final = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def branin(x: float, y: float) -> float:
    """Three equal optima, on -5..10 and 0..15."""
    bowl = (y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6) ** 2
    return bowl + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


def hartmann(x: Sequence[float]) -> float:
    """Six dimensions, 0..1 in each; the second best valley leads many searches away."""
    away = np.sum(_HARTMANN_WIDTHS * (np.asarray(x) - _HARTMANN_CENTERS) ** 2, axis=1)
    return -float(_HARTMANN_WEIGHTS @ np.exp(-away))


def ackley(z: Array) -> float:
    """Many small waves around one funnel; 0 at the origin."""
    waves = math.exp(float(np.mean(np.cos(2 * math.pi * z))))
    return 20 * (1 - math.exp(-0.2 * math.sqrt(float(np.mean(z**2))))) + math.e - waves


def levy(x: Array) -> float:
    """Waves on a bowl; 0 where all coordinates are 1."""
    w = 1 + (x - 1) / 4
    inner = np.sum((w[:-1] - 1) ** 2 * (1 + 10 * np.sin(math.pi * w[:-1] + 1) ** 2))
    last = (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)
    return float(math.sin(math.pi * w[0]) ** 2 + inner + last)
