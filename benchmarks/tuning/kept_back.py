"""Defines the problems that were kept back: no rule of the search was chosen with them.

Definitions after Surjanovic and Bingham, "Virtual Library of Simulation Experiments"
(https://www.sfu.ca/~ssurjano/), Coello (2000) for the beam and the spring, Tanabe and Ishibuchi
(2020) for the truss, and Van Veldhuizen and Lamont (1999) for VLMOP2.  The truss, VLMOP2 and the
trainings have no floor: the best of all searches replaces it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.tuning import kept_trainings
from benchmarks.tuning.flat_problems import box, shift
from benchmarks.tuning.spaces import METRIC, Chosen, Problem, double, minimised, study_of

Array = NDArray[np.float64]

_EGGHOLDER_MIN: Final = -959.640662720851
_GOLDSTEIN_MIN: Final = math.log(3.0)
_BEAM_MIN: Final = 1.724852
_SPRING_MIN: Final = 0.0126652
_TRUSS: Final = ((1.0, 3.0), (math.sqrt(2), 3.0), (math.sqrt(2), 3.0), (1.0, 3.0))


def _moved(
    function: Callable[[Array], float], dimensions: int, low: float, high: float
) -> Callable[[int], Problem]:
    """Return a function with least value 0, moved by up to 15 % of its range by the seed."""

    def make(seed: int) -> Problem:
        move = (high - low) / 2 * shift(dimensions, seed) / 2
        return box([(low, high)] * dimensions, lambda *x: function(np.array(x) - move))

    return make


def _zakharov(x: Array) -> float:
    slope = 0.5 * float(np.arange(1, len(x) + 1) @ x)
    return float(x @ x) + slope**2 + slope**4


def _powell(x: Array) -> float:
    a, b, c, d = x.reshape(-1, 4).T
    pairs = (a + 10 * b) ** 2 + 5 * (c - d) ** 2 + (b - 2 * c) ** 4 + 10 * (a - d) ** 4
    return float(np.sum(pairs))


def _dixon_price(x: Array) -> float:
    weights = np.arange(2, len(x) + 1)
    return float((x[0] - 1) ** 2 + weights @ (2 * x[1:] ** 2 - x[:-1]) ** 2)


def _eggholder(seed: int) -> Problem:
    """Return the function with steep hills, whose axes run backwards by the seed."""
    turns = np.random.default_rng([2, seed]).choice([-1.0, 1.0], 2)

    def function(*point: float) -> float:
        x, y = turns * np.array(point)
        first = (y + 47) * math.sin(math.sqrt(abs(y + x / 2 + 47)))
        return float(-first - x * math.sin(math.sqrt(abs(x - y - 47))))

    return replace(box([(-512.0, 512.0)] * 2, function), floor=_EGGHOLDER_MIN)


def _goldstein(_seed: int) -> Problem:
    """Return the logarithm of Goldstein and Price's function, with noise."""

    def function(x: float, y: float) -> float:
        first = 19 - 14 * x + 3 * x**2 - 14 * y + 6 * x * y + 3 * y**2
        second = 18 - 32 * x + 12 * x**2 + 48 * y - 36 * x * y + 27 * y**2
        value = (1 + (x + y + 1) ** 2 * first) * (30 + (2 * x - 3 * y) ** 2 * second)
        return math.log(value)

    return replace(box([(-2.0, 2.0)] * 2, function), floor=_GOLDSTEIN_MIN, noise=0.5)


def _robot_arm(seed: int) -> Problem:
    """Return the distance of the hand of an arm with four parts from a target, with noise."""
    target = np.random.default_rng([5, seed]).uniform(-1, 1, 2)
    bounds = [*[(0.0, 2 * math.pi)] * 4, *[(0.0, 1.0)] * 4]

    def function(*point: float) -> float:
        angles, lengths = np.cumsum(point[:4]), np.array(point[4:])
        hand = np.array([lengths @ np.cos(angles), lengths @ np.sin(angles)])
        return float(np.linalg.norm(hand - target))

    return replace(box(bounds, function), noise=0.1)


def _welded_beam(_seed: int) -> Problem:
    """Return the cost of a welded beam with limits of stress, bending and buckling."""
    bounds = {"h": (0.125, 5.0), "l": (0.1, 10.0), "t": (0.1, 10.0), "b": (0.125, 5.0)}
    limits = {"shear": 13_600.0, "stress": 30_000.0, "seam": 0.0, "bend": 0.25, "buckling": 0.0}

    def measure(chosen: Chosen) -> tuple[float, ...]:
        h, l, t, b = (float(chosen[name]) for name in bounds)  # noqa: E741  # of the source
        load, length, young, rigid = 6000.0, 14.0, 30e6, 12e6
        arm = math.sqrt(l**2 / 4 + ((h + t) / 2) ** 2)
        inertia = 2 * math.sqrt(2) * h * l * (l**2 / 12 + ((h + t) / 2) ** 2)
        first = load / (math.sqrt(2) * h * l)
        second = load * (length + l / 2) * arm / inertia
        shear = math.sqrt(first**2 + first * second * l / arm + second**2)
        buckles = 4.013 * young * t * b**3 / 6 / length**2
        buckles *= 1 - t / (2 * length) * math.sqrt(young / (4 * rigid))
        stress = 6 * load * length / (b * t**2)
        bend = 4 * load * length**3 / (young * t**3 * b)
        cost = 1.10471 * h**2 * l + 0.04811 * t * b * (14 + l)
        return cost, shear, stress, h - b, bend, load - buckles

    return _limited(bounds, limits, measure, _BEAM_MIN)


def _spring(_seed: int) -> Problem:
    """Return the weight of a spring with limits of bending, stress, frequency and width."""
    bounds = {"wire": (0.05, 2.0), "coil": (0.25, 1.3), "turns": (2.0, 15.0)}
    limits = dict.fromkeys(("bend", "stress", "frequency", "width"), 0.0)

    def measure(chosen: Chosen) -> tuple[float, ...]:
        d, width, turns = (float(chosen[name]) for name in bounds)
        bend = 1 - width**3 * turns / (71_785 * d**4)
        stress = (4 * width**2 - d * width) / (12_566 * (width * d**3 - d**4))
        stress += 1 / (5108 * d**2) - 1
        frequency = 1 - 140.45 * d / (width**2 * turns)
        return (turns + 2) * width * d**2, bend, stress, frequency, (d + width) / 1.5 - 1

    return _limited(bounds, limits, measure, _SPRING_MIN)


def _limited(
    bounds: Mapping[str, tuple[float, float]],
    limits: Mapping[str, float],
    measure: Callable[[Chosen], tuple[float, ...]],
    floor: float,
) -> Problem:
    metrics = (minimised(METRIC), *(minimised(name, most) for name, most in limits.items()))
    parameters = (double(name, *pair) for name, pair in bounds.items())
    return Problem(study=study_of(*parameters, metrics=metrics), measure=measure, floor=floor)


def _truss(_seed: int) -> Problem:
    """Return the volume of a truss of four bars, and how far its joint moves."""
    names = [f"x{i}" for i in range(4)]

    def measure(chosen: Chosen) -> tuple[float, ...]:
        a, b, c, d = (float(chosen[name]) for name in names)
        volume = 200 * (2 * a + math.sqrt(2) * b + math.sqrt(c) + d)
        move = 0.01 * (2 / a + 2 * math.sqrt(2) / b - 2 * math.sqrt(2) / c + 2 / d)
        return volume, move

    parameters = (double(name, *pair) for name, pair in zip(names, _TRUSS, strict=True))
    study = study_of(*parameters, metrics=(minimised("volume"), minimised("move")))
    return Problem(study=study, measure=measure, floor=None, reference=(3000.0, 0.04))


def _vlmop2(_seed: int) -> Problem:
    """Return two bells of three numbers, whose front is not convex."""
    names = [f"x{i}" for i in range(3)]

    def measure(chosen: Chosen) -> tuple[float, ...]:
        x = np.array([float(chosen[name]) for name in names])
        away = 1 / math.sqrt(len(names))
        first, second = (float(np.sum((x - side * away) ** 2)) for side in (1, -1))
        return 1 - math.exp(-first), 1 - math.exp(-second)

    parameters = (double(name, -2, 2) for name in names)
    study = study_of(*parameters, metrics=(minimised("first"), minimised("second")))
    return Problem(study=study, measure=measure, floor=None, reference=(1.1, 1.1))


PROBLEMS: Final[Mapping[str, Callable[[int], Problem]]] = {
    "zakharov-6": _moved(_zakharov, 6, -10, 10),
    "powell-8": _moved(_powell, 8, -5, 5),
    "eggholder": _eggholder,
    "dixon-price-20": _moved(_dixon_price, 20, -10, 10),
    "goldstein-noisy": _goldstein,
    "robot-arm-noisy": _robot_arm,
    "welded-beam": _welded_beam,
    "spring": _spring,
    "truss": _truss,
    "vlmop2-3": _vlmop2,
    **kept_trainings.PROBLEMS,
}
