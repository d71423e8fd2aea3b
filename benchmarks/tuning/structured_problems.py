"""Defines problems with parameters of several kinds, and with conditional parameters."""

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from benchmarks.tuning.classical import ackley
from benchmarks.tuning.flat_problems import shift
from benchmarks.tuning.spaces import Chosen, Problem, category, double, integer, study_of
from trainshed.model.study import ParameterKind, ParameterSpec, Scale


def _mixed(seed: int) -> Problem:
    """Return a problem with parameters of all kinds, of different importance; some interact."""
    rng = np.random.default_rng([1, seed])
    words = ("relu", "tanh", "gelu", "elu")
    sizes = (16.0, 32.0, 64.0, 128.0, 256.0)
    goal, costs = (
        rng.uniform(0.15, 0.85, 6),
        dict(zip(words, rng.permutation(4) * 0.1, strict=True)),
    )
    study = study_of(
        double("rate", 1e-5, 1e-1, Scale.LOG),
        double("drop", 0.0, 0.8),
        double("decay", 1e-6, 1e-1, Scale.LOG),
        integer("layers", 1, 8),
        integer("units", 8, 1024, Scale.LOG),
        category("activation", *words),
        ParameterSpec(parameter_id="batch", kind=ParameterKind.DISCRETE, values=sizes),
    )

    def measure(chosen: Chosen) -> tuple[float, ...]:
        at = {
            "rate": math.log(float(chosen["rate"]) / 1e-5) / math.log(1e4),
            "drop": float(chosen["drop"]) / 0.8,
            "decay": math.log(float(chosen["decay"]) / 1e-6) / math.log(1e5),
            "units": math.log(float(chosen["units"]) / 8) / math.log(128),
        }
        rate = at["rate"] - goal[0] - 0.05 * (sizes.index(float(chosen["batch"])) - 2)
        layers = (float(chosen["layers"]) - 1 - round(7 * goal[3])) / 7
        parts = [3 * rate, at["drop"] - goal[1], 0.3 * (at["decay"] - goal[2])]
        parts += [layers, at["units"] - goal[4] + 0.5 * layers]
        batch = 0.02 * abs(sizes.index(float(chosen["batch"])) - round(4 * goal[5]))
        return (float(np.sum(np.square(parts)) + costs[str(chosen["activation"])] + batch),)

    return Problem(study=study, measure=measure)


def _conditional(seed: int) -> Problem:
    """Return a problem with three models, each with its parameters; one is slightly better."""
    rng = np.random.default_rng([2, seed])
    goal = rng.uniform(0.2, 0.8, 9)
    handicap = dict(
        zip(("linear", "tree", "network"), rng.permutation([0, 0.05, 0.3]), strict=True)
    )
    study = study_of(
        category(
            "model",
            "linear",
            "tree",
            "network",
            linear=(double("l2", 1e-6, 1.0, Scale.LOG),),
            tree=(integer("depth", 1, 21), double("shrinkage", 0.001, 1.0, Scale.LOG)),
            network=(
                double("rate", 1e-5, 1e-1, Scale.LOG),
                double("drop", 0, 1),
                double("mix", 0, 1),
            ),
        ),
        double("clip", 0, 1),
        double("noise", 0, 1),
    )

    def measure(chosen: Chosen) -> tuple[float, ...]:
        model = str(chosen["model"])
        away = [2 * (float(chosen["clip"]) - goal[0]), float(chosen["noise"]) - goal[1]]
        if model == "linear":
            away.append(math.log10(float(chosen["l2"])) / 6 + goal[2])
        elif model == "tree":
            away.append((float(chosen["depth"]) - 1 - round(20 * goal[3])) / 20)
            away.append(math.log10(float(chosen["shrinkage"])) / 3 + goal[4])
        else:
            rate = (math.log10(float(chosen["rate"])) + 5) / 4
            away += [
                2 * (rate - goal[5]),
                float(chosen["drop"]) - goal[6],
                float(chosen["mix"]) - rate,
            ]
        return (float(np.sum(np.square(away)) + handicap[model]),)

    return Problem(study=study, measure=measure)


def _ackley_mixed(seed: int) -> Problem:
    """Return Ackley's function of three numbers, three whole numbers and two categories."""
    rng = np.random.default_rng([8, seed])
    move = np.concatenate([10 * shift(3, seed), rng.integers(-6, 7, 3)])
    words = ("a", "b", "c", "d")
    cost = {name: dict(zip(words, rng.permutation(4), strict=True)) for name in ("c0", "c1")}
    numbers = [*(f"x{i}" for i in range(3)), *(f"n{i}" for i in range(3))]
    study = study_of(
        *(double(name, -10, 10) for name in numbers[:3]),
        *(integer(name, -10, 10) for name in numbers[3:]),
        *(category(name, *words) for name in cost),
    )

    def measure(chosen: Chosen) -> tuple[float, ...]:
        away = np.array([float(chosen[name]) for name in numbers]) - move
        costs = [float(cost[name][str(chosen[name])]) for name in cost]
        return (ackley(np.append(away, costs)),)

    return Problem(study=study, measure=measure)


PROBLEMS: Final[Mapping[str, Callable[[int], Problem]]] = {
    "mixed": _mixed,
    "ackley-mixed": _ackley_mixed,
    "conditional": _conditional,
}
