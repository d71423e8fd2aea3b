"""Defines problems over real numbers with one objective: classical, noisy and with plateaus."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from benchmarks.tuning.classical import (
    BRANIN_BOUNDS,
    BRANIN_MIN,
    HARTMANN_MIN,
    ackley,
    branin,
    hartmann,
    levy,
)
from benchmarks.tuning.spaces import Chosen, Problem, double, study_of

#: The height of a step of the stairs.
_STEP: Final = 0.25


def box(bounds: Sequence[tuple[float, float]], function: Callable[..., float]) -> Problem:
    """Return the problem of a function with least value 0, of one number for each bound."""
    names = [f"x{i:02}" for i in range(len(bounds))]

    def measure(chosen: Chosen) -> tuple[float, ...]:
        return (function(*(float(chosen[name]) for name in names)),)

    parameters = (double(name, *pair) for name, pair in zip(names, bounds, strict=True))
    return Problem(study=study_of(*parameters), measure=measure)


def shift(dimensions: int, seed: int) -> np.ndarray:
    """Draw where an optimum is: within the middle 60 % of -1..1 in each dimension."""
    return np.random.default_rng([7, dimensions, seed]).uniform(-0.6, 0.6, dimensions)


def _branin(_seed: int) -> Problem:
    return replace(box(BRANIN_BOUNDS, branin), floor=BRANIN_MIN)


def _hartmann(_seed: int) -> Problem:
    return replace(box([(0.0, 1.0)] * 6, lambda *x: hartmann(x)), floor=HARTMANN_MIN)


def _stairs(_seed: int) -> Problem:
    def stairs(*x: float) -> float:
        return math.ceil(hartmann(x) / _STEP) * _STEP

    floor = math.ceil(HARTMANN_MIN / _STEP) * _STEP
    return replace(box([(0.0, 1.0)] * 6, stairs), floor=floor)


def _levy(seed: int) -> Problem:
    move = 10 * shift(4, seed)
    return box([(-10.0, 10.0)] * 4, lambda *x: levy(np.array(x) - move + 1))


def _ackley(dimensions: int, width: float) -> Callable[[int], Problem]:
    def make(seed: int) -> Problem:
        move = width * shift(dimensions, seed)
        return box([(-width, width)] * dimensions, lambda *x: ackley(np.array(x) - move))

    return make


def _noisy(make: Callable[[int], Problem], deviation: float) -> Callable[[int], Problem]:
    return lambda seed: replace(make(seed), noise=deviation)


PROBLEMS: Final[Mapping[str, Callable[[int], Problem]]] = {
    "branin": _branin,
    "hartmann-6": _hartmann,
    "levy-4": _levy,
    "ackley-10": _ackley(10, 32.768),
    "hartmann-6-noisy": _noisy(_hartmann, 0.2),
    "ackley-4-noisy": _noisy(_ackley(4, 10.0), 1.0),
    "hartmann-6-stairs": _stairs,
}
