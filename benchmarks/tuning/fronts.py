"""Defines the problems with several objectives of the tuning benchmark.

``reference`` is the worst point that counts for the hypervolume.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import numpy as np

from benchmarks.tuning.classical import branin
from benchmarks.tuning.metrics import MetricsProblem, goal, limit, study_with, three_models
from benchmarks.tuning.spaces import Chosen, category, double, integer
from trainshed.model.study import Metric, Scale

TWO: Final = (goal("first"), goal("second"))
THREE: Final = (*TWO, goal("third"))
FOUR: Final = (*THREE, goal("fourth"))


def _branin_currin(_seed: int) -> MetricsProblem:
    """Branin's and Currin's functions of two variables (Belakaria et al., 2019)."""

    def measure(chosen: Chosen) -> Mapping[str, float]:
        u, v = float(chosen["x"]), float(chosen["y"])
        factor = 1 - math.exp(-1 / (2 * v)) if v > 0 else 1.0
        top = 2300 * u**3 + 1900 * u**2 + 2092 * u + 60
        second = factor * top / (100 * u**3 + 500 * u**2 + 4 * u + 20)
        return {"first": branin(15 * u - 5, 15 * v), "second": second}

    study = study_with(TWO, double("x", 0, 1), double("y", 0, 1))
    return MetricsProblem(study=study, measure=measure, best=59.36011, reference=(18.0, 6.0))


def _zdt(
    seed: int, wave: float, dimensions: int = 6, reference: tuple[float, float] = (1.1, 1.1)
) -> MetricsProblem:
    """Zitzler, Deb and Thiele's ZDT1; with a wave ZDT3, whose front has gaps."""

    def measure(chosen: Chosen) -> Mapping[str, float]:
        first, *rest = (float(value) for value in chosen.values())
        g = 1 + 9 * sum(rest) / len(rest)
        share = first / g
        second = g * (1 - math.sqrt(share) - wave * share * math.sin(10 * math.pi * first))
        return {"first": first, "second": second}

    del seed
    study = study_with(TWO, *(double(f"x{i}", 0, 1) for i in range(dimensions)))
    best = None if wave else math.prod(reference) - 1 / 3
    return MetricsProblem(study=study, measure=measure, best=best, reference=reference)


def _dtlz2(_seed: int, metrics: tuple[Metric, ...]) -> MetricsProblem:
    """Deb, Thiele, Laumanns and Zitzler's DTLZ2 in six dimensions: a part of a sphere."""
    count = len(metrics)

    def measure(chosen: Chosen) -> Mapping[str, float]:
        x = [float(value) for value in chosen.values()]
        angles = [0.5 * math.pi * value for value in x[: count - 1]]
        radius = 1 + sum((value - 0.5) ** 2 for value in x[count - 1 :])
        values = []
        for at in range(count):
            cosines = math.prod(math.cos(angle) for angle in angles[: count - 1 - at])
            values.append(radius * cosines * (math.sin(angles[count - 1 - at]) if at else 1.0))
        return {metric.metric_id: value for metric, value in zip(metrics, values, strict=True)}

    # the part of a ball of radius 1 without negative coordinates
    ball = (math.pi / 4) ** (count / 2) / math.gamma(count / 2 + 1)
    return MetricsProblem(
        study=study_with(metrics, *(double(f"x{i}", 0, 1) for i in range(6))),
        measure=measure,
        best=1.1**count - ball,
        reference=(1.1,) * count,
    )


def _vehicle(_seed: int) -> MetricsProblem:
    """Weight, acceleration and intrusion of a car in a crash (Tanabe and Ishibuchi, 2020)."""

    def measure(chosen: Chosen) -> Mapping[str, float]:
        a, b, c, d, e = (float(value) for value in chosen.values())
        weight = 1640.2823 + 2.3573285 * a + 2.3220035 * b + 4.5688768 * c + 7.7213633 * d
        crash = 6.5856 + 1.15 * a - 1.0427 * b + 0.9738 * c + 0.8364 * d - 0.3695 * a * d
        crash += 0.0861 * a * e + 0.3628 * b * d - 0.1106 * a**2 - 0.3437 * c**2 + 0.1764 * d**2
        dent = -0.0551 + 0.0181 * a + 0.1024 * b + 0.0421 * c - 0.0073 * a * b + 0.024 * b * c
        dent += -0.0118 * b * d - 0.0204 * c * d - 0.008 * c * e - 0.0241 * b**2 + 0.0109 * d**2
        return {"first": weight + 4.4559504 * e, "second": crash, "third": dent}

    study = study_with(THREE, *(double(f"x{i}", 1, 3) for i in range(5)))
    reference = (1864.72022, 11.81993945, 0.2903999384)
    return MetricsProblem(study=study, measure=measure, best=246.81607, reference=reference)


def _bnh(_seed: int) -> MetricsProblem:
    """Binh and Korn's two objectives with two limits."""

    def measure(chosen: Chosen) -> Mapping[str, float]:
        x, y = (float(value) for value in chosen.values())
        return {
            "first": 4 * x * x + 4 * y * y,
            "second": (x - 5) ** 2 + (y - 5) ** 2,
            "left": (x - 5) ** 2 + y * y - 25,
            "right": 7.7 - (x - 8) ** 2 - (y + 3) ** 2,
        }

    metrics = (*TWO, limit("left"), limit("right"))
    study = study_with(metrics, double("x", 0, 5), double("y", 0, 3))
    return MetricsProblem(study=study, measure=measure, reference=(140.0, 50.0))


def _c2_dtlz2(seed: int) -> MetricsProblem:
    """DTLZ2 with two objectives, of whose front three parts are within a limit (Jain, 2014)."""
    plain = _dtlz2(seed, TWO)

    def measure(chosen: Chosen) -> Mapping[str, float]:
        values = plain.measure(chosen)
        first, second = values.values()
        radius = 0.2**2
        corners = min((first - 1) ** 2 + second**2, (second - 1) ** 2 + first**2)
        middle = (first - 0.5**0.5) ** 2 + (second - 0.5**0.5) ** 2
        return {**values, "parts": min(corners, middle) - radius}

    study = study_with((*TWO, limit("parts")), *plain.study.parameters)
    return MetricsProblem(study=study, measure=measure, reference=(1.1, 1.1))


def _network(seed: int) -> MetricsProblem:
    """The error and the latency of a made-up training with parameters of all kinds."""
    rng = np.random.default_rng([5, seed])
    words = ("relu", "tanh", "gelu", "elu")
    goal_rate, goal_drop = rng.uniform(0.15, 0.85, 2)
    costs = dict(zip(words, rng.permutation(4) * 0.08, strict=True))
    study = study_with(
        (goal("first"), goal("second")),
        double("rate", 1e-5, 1e-1, Scale.LOG),
        double("drop", 0.0, 0.8),
        integer("layers", 1, 8),
        integer("units", 8, 1024, Scale.LOG),
        category("activation", *words),
    )

    def measure(chosen: Chosen) -> Mapping[str, float]:
        rate = math.log(float(chosen["rate"]) / 1e-5) / math.log(1e4)
        units = math.log2(float(chosen["units"]) / 8) / 7
        layers = (float(chosen["layers"]) - 1) / 7
        word = str(chosen["activation"])
        error = (2 * (rate - goal_rate)) ** 2 + (float(chosen["drop"]) / 0.8 - goal_drop) ** 2
        error += math.exp(-2 * units - layers) + costs[word]
        return {"first": error, "second": units + 0.7 * layers + 0.1 * words.index(word)}

    return MetricsProblem(study=study, measure=measure, reference=(1.5, 1.8))


def _models(seed: int) -> MetricsProblem:
    """The error and the size of three models, each with parameters of its own."""
    rng = np.random.default_rng([6, seed])
    at = rng.uniform(0.2, 0.8, 4)
    study = study_with(
        TWO,
        *three_models(),
    )

    def measure(chosen: Chosen) -> Mapping[str, float]:
        model = str(chosen["model"])
        clip = (float(chosen["clip"]) - at[0]) ** 2
        if model == "linear":
            away = math.log10(float(chosen["l2"])) / 6 + at[1]
            return {"first": 0.7 + away**2 + clip, "second": 0.1 + clip}
        if model == "tree":
            depth = (float(chosen["depth"]) - 1) / 20
            away = math.log10(float(chosen["shrinkage"])) / 3 + at[2]
            error = 0.35 + 0.4 * (1 - depth) ** 2 + away**2 + clip
            return {"first": error, "second": 0.2 + 0.4 * depth}
        width, mix = float(chosen["width"]), float(chosen["mix"])
        error = 0.1 + 0.8 * (1 - width) ** 2 + (mix - at[3]) ** 2 + clip
        return {"first": error, "second": 0.4 + 0.7 * width + 0.3 * (mix - at[3]) ** 2}

    return MetricsProblem(study=study, measure=measure, reference=(1.2, 1.2))


def _quadratics(_seed: int, dimensions: int, metrics: tuple[Metric, ...]) -> MetricsProblem:
    """Squared distances from as many points, which differ in all coordinates or in one."""
    count = len(metrics)
    centers = [np.full(dimensions, 0.3 + 0.4 * at) for at in range(count)]
    if count > len(TWO):
        centers = [np.where(np.arange(dimensions) == at, 0.8, 0.2) for at in range(count)]

    def measure(chosen: Chosen) -> Mapping[str, float]:
        x = np.array([float(value) for value in chosen.values()])
        squares = [float(np.sum((x - center) ** 2)) for center in centers]
        return {metric.metric_id: square for metric, square in zip(metrics, squares, strict=True)}

    study = study_with(metrics, *(double(f"x{i:02}", 0, 1) for i in range(dimensions)))
    return MetricsProblem(study=study, measure=measure, reference=(0.2 * dimensions,) * count)


#: The problems with several objectives, by name; each takes the seed.
FRONTS: Final[Mapping[str, Callable[[int], MetricsProblem]]] = {
    "branin-currin": _branin_currin,
    "zdt1": partial(_zdt, wave=0.0),
    "zdt3": partial(_zdt, wave=1.0),
    "dtlz2-2": partial(_dtlz2, metrics=TWO),
    "dtlz2-3": partial(_dtlz2, metrics=THREE),
    "dtlz2-4": partial(_dtlz2, metrics=FOUR),
    "quadratics-4": partial(_quadratics, dimensions=4, metrics=FOUR),
    "quadratics-20": partial(_quadratics, dimensions=20, metrics=TWO),
    "zdt1-20": partial(_zdt, wave=0.0, dimensions=20, reference=(1.1, 6.0)),
    "vehicle": _vehicle,
    "bnh": _bnh,
    "c2-dtlz2": _c2_dtlz2,
    "network-front": _network,
    "models-front": _models,
}
