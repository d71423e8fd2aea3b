"""Defines the problems with limits of the tuning benchmark: one loss, and metrics that limit it.

``best`` is the least loss of a safe point, from the literature or from a dense search.
"""

import math
import zlib
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from benchmarks.tuning.classical import BRANIN_MIN, ackley, branin
from benchmarks.tuning.metrics import MetricsProblem, limit, limited, study_with, three_models
from benchmarks.tuning.spaces import METRIC, Chosen, category, double, integer
from trainshed.model.study import ParameterKind, ParameterSpec, Scale


def _branin_disk(_seed: int) -> MetricsProblem:
    """Branin's function in a disk that has one of its three optima (Gelbart et al., 2014)."""

    def measure(chosen: Chosen) -> Mapping[str, float]:
        x, y = _numbers(chosen)
        return {METRIC: branin(x, y), "disk": (x - 2.5) ** 2 + (y - 7.5) ** 2}

    study = study_with(limited(limit("disk", 50.0)), double("x", -5, 10), double("y", 0, 15))
    return MetricsProblem(study=study, measure=measure, best=BRANIN_MIN)


def _branin_noise(seed: int) -> MetricsProblem:
    """The same, with noise on the loss and on the limit; what is scored has no noise."""
    plain = _branin_disk(seed)

    def measure(chosen: Chosen) -> Mapping[str, float]:
        rng = np.random.default_rng([seed, zlib.crc32(repr(sorted(chosen.items())).encode())])
        exact = plain.measure(chosen)
        noise = rng.standard_normal(2)
        return {METRIC: exact[METRIC] + noise[0], "disk": exact["disk"] + 3 * noise[1]}

    return MetricsProblem(study=plain.study, measure=measure, truth=plain.measure, best=plain.best)


def _ackley(_seed: int) -> MetricsProblem:
    """Ackley's function in five dimensions with two limits (Eriksson and Poloczek, 2021)."""

    def measure(chosen: Chosen) -> Mapping[str, float]:
        x = np.array(_numbers(chosen))
        return {METRIC: ackley(x), "sum": float(x.sum()), "length": float(np.linalg.norm(x)) - 5}

    parameters = (double(f"x{i}", -5, 10) for i in range(5))
    study = study_with(limited(limit("sum"), limit("length")), *parameters)
    return MetricsProblem(study=study, measure=measure, best=0.0)


def _gardner(_seed: int) -> MetricsProblem:
    """The first simulation of Gardner et al., 2014: two variables, several safe regions."""

    def measure(chosen: Chosen) -> Mapping[str, float]:
        x, y = _numbers(chosen)
        return {
            METRIC: math.cos(2 * x) * math.cos(y) + math.sin(x),
            "edge": math.cos(x + y),
        }

    study = study_with(limited(limit("edge", 0.5)), double("x", 0, 6), double("y", 0, 6))
    return MetricsProblem(study=study, measure=measure, best=-2.0)


def _tiny(_seed: int) -> MetricsProblem:
    """The second simulation of Gardner et al., 2014: about 1 % of the space is safe."""

    def measure(chosen: Chosen) -> Mapping[str, float]:
        x, y = _numbers(chosen)
        return {METRIC: math.sin(x) + y, "edge": math.sin(x) * math.sin(y)}

    study = study_with(limited(limit("edge", -0.95)), double("x", 0, 6), double("y", 0, 6))
    return MetricsProblem(study=study, measure=measure, best=0.253236)


def _gramacy(_seed: int) -> MetricsProblem:
    """A line with a wavy and a round limit (Gramacy et al., 2016)."""

    def measure(chosen: Chosen) -> Mapping[str, float]:
        x, y = _numbers(chosen)
        waves = 0.5 * math.sin(2 * math.pi * (x * x - 2 * y))
        return {METRIC: x + y, "wave": 1.5 - x - 2 * y - waves, "round": x * x + y * y - 1.5}

    study = study_with(limited(limit("wave"), limit("round")), double("x", 0, 1), double("y", 0, 1))
    return MetricsProblem(study=study, measure=measure, best=0.599788)


def _thin(_seed: int) -> MetricsProblem:
    """A bowl whose safe points lie in a ribbon along a curve: nearly an equality."""

    def measure(chosen: Chosen) -> Mapping[str, float]:
        x, y, z = _numbers(chosen)
        ribbon = abs(y - 0.5 - 0.3 * math.sin(5 * x)) - 0.02
        return {METRIC: (x - 0.9) ** 2 + (y - 0.9) ** 2 + (z - 0.3) ** 2, "ribbon": ribbon}

    parameters = (double(name, 0, 1) for name in ("x", "y", "z"))
    study = study_with(limited(limit("ribbon")), *parameters)
    return MetricsProblem(study=study, measure=measure, best=0.192902)


def _vessel(_seed: int) -> MetricsProblem:
    """The costs of a pressure vessel with three limits, by four measures; two have steps."""

    def measure(chosen: Chosen) -> Mapping[str, float]:
        shell, head = 0.0625 * float(chosen["shell"]), 0.0625 * float(chosen["head"])
        radius, length = float(chosen["radius"]), float(chosen["length"])
        cost = 0.6224 * shell * radius * length + 1.7781 * head * radius**2
        cost += 3.1661 * shell**2 * length + 19.84 * shell**2 * radius
        volume = math.pi * radius**2 * length + 4 / 3 * math.pi * radius**3
        return {
            METRIC: cost,
            "shell": 0.0193 * radius - shell,
            "head": 0.00954 * radius - head,
            "volume": 1_296_000 - volume,
        }

    study = study_with(
        limited(limit("shell"), limit("head"), limit("volume")),
        integer("shell", 1, 99),
        integer("head", 1, 99),
        double("radius", 10, 200),
        double("length", 10, 200),
    )
    return MetricsProblem(study=study, measure=measure, best=6059.71)


def _network(seed: int) -> MetricsProblem:
    """A made-up training with parameters of all kinds; the network must fit a small machine."""
    rng = np.random.default_rng([3, seed])
    words, sizes = ("relu", "tanh", "gelu", "elu"), (16.0, 32.0, 64.0, 128.0, 256.0)
    goal = rng.uniform(0.15, 0.85, 3)
    costs = dict(zip(words, rng.permutation(4) * 0.1, strict=True))
    study = study_with(
        limited(limit("memory", 11.0), limit("latency", 1.0)),
        double("rate", 1e-5, 1e-1, Scale.LOG),
        double("drop", 0.0, 0.8),
        integer("layers", 1, 8),
        integer("units", 8, 1024, Scale.LOG),
        category("activation", *words),
        ParameterSpec(parameter_id="batch", kind=ParameterKind.DISCRETE, values=sizes),
    )

    def measure(chosen: Chosen) -> Mapping[str, float]:
        rate = math.log(float(chosen["rate"]) / 1e-5) / math.log(1e4)
        units, layers = math.log2(float(chosen["units"])), float(chosen["layers"])
        word, batch = str(chosen["activation"]), sizes.index(float(chosen["batch"]))
        parts = [3 * (rate - goal[0]) - 0.1 * (batch - 2), float(chosen["drop"]) / 0.8 - goal[1]]
        capacity = 1.5 * math.exp(-0.25 * (units - 3) - 0.2 * (layers - 1))
        return {
            METRIC: float(np.sum(np.square(parts))) + capacity + costs[word],
            "memory": units + math.log2(1 + layers) + 0.3 * batch,
            "latency": (layers / 8 + 0.3 * words.index(word)) * (units / 10),
        }

    return MetricsProblem(study=study, measure=measure)


def _models(seed: int) -> MetricsProblem:
    """Three models with parameters of their own; the best model is seldom within the limit."""
    rng = np.random.default_rng([4, seed])
    goal = rng.uniform(0.2, 0.8, 6)
    study = study_with(
        limited(limit("size", 0.5)),
        *three_models(),
    )

    def measure(chosen: Chosen) -> Mapping[str, float]:
        model = str(chosen["model"])
        clip = 2 * (float(chosen["clip"]) - goal[0])
        if model == "linear":
            away = math.log10(float(chosen["l2"])) / 6 + goal[1]
            return {METRIC: 0.5 + away**2 + clip**2, "size": 0.1}
        if model == "tree":
            depth = (float(chosen["depth"]) - 1) / 20
            away = math.log10(float(chosen["shrinkage"])) / 3 + goal[2]
            return {METRIC: 0.3 + (depth - 0.8) ** 2 + away**2 + clip**2, "size": 0.2 + depth**2}
        width, mix = float(chosen["width"]), float(chosen["mix"])
        loss = 0.8 * (1 - width) ** 2 + (mix - goal[3]) ** 2 + clip**2
        return {METRIC: loss, "size": 1.5 * width + 0.5 * (mix - goal[4]) ** 2}

    return MetricsProblem(study=study, measure=measure)


def _quadratic(_seed: int) -> MetricsProblem:
    """A squared distance in 20 dimensions, and a limit of the distance from another point."""
    names = [f"x{i:02}" for i in range(20)]

    def measure(chosen: Chosen) -> Mapping[str, float]:
        x = np.array(_numbers(chosen))
        away = float(np.sum((x - 0.6) ** 2))
        return {METRIC: float(np.sum((x - 0.3) ** 2)), "away": away - 0.8}

    study = study_with(limited(limit("away")), *(double(name, 0, 1) for name in names))
    # the nearest point of the ball around the other one
    best = (math.sqrt(20 * 0.3**2) - math.sqrt(0.8)) ** 2
    return MetricsProblem(study=study, measure=measure, best=best)


def _numbers(chosen: Chosen) -> list[float]:
    return [float(value) for value in chosen.values()]


#: The problems with limits, by name; each takes the seed.
LIMITS: Final[Mapping[str, Callable[[int], MetricsProblem]]] = {
    "branin-disk": _branin_disk,
    "branin-noise": _branin_noise,
    "ackley-limits": _ackley,
    "gardner": _gardner,
    "tiny-region": _tiny,
    "gramacy": _gramacy,
    "thin-region": _thin,
    "vessel": _vessel,
    "network-limits": _network,
    "models-limit": _models,
    "quadratic-limit-20": _quadratic,
}
