"""Defines the problems of the tuning benchmark: functions, two other spaces, two trainings.

Each problem is a study of the service, and a function of the chosen values to minimise.  ``floor``
is the least value of the function; None if it is unknown.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.tuning.functions import objective
from benchmarks.tuning.spaces import Chosen, Problem, category, double, integer, study_of
from benchmarks.tuning.trainings import kernels, network
from trainshed.model.study import ParameterKind, ParameterSpec, Scale


def problem(name: str, dimensions: int, seed: int) -> Problem:
    """Create a problem: a function, or one of ``OTHERS``, which ignores ``dimensions``."""
    if name in OTHERS:
        return OTHERS[name](seed)
    names = [f"x{i:02}" for i in range(dimensions)]
    function = objective(name, dimensions, seed)

    def loss(chosen: Chosen) -> float:
        return function(np.array([float(chosen[parameter]) for parameter in names]))

    return Problem(study=study_of(*(double(parameter, -5, 5) for parameter in names)), loss=loss)


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

    def loss(chosen: Chosen) -> float:
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
        return float(np.sum(np.square(parts)) + costs[str(chosen["activation"])] + batch)

    return Problem(study=study, loss=loss)


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

    def loss(chosen: Chosen) -> float:
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
        return float(np.sum(np.square(away)) + handicap[model])

    return Problem(study=study, loss=loss)


OTHERS: Mapping[str, Callable[[int], Problem]] = {
    "mixed": _mixed,
    "conditional": _conditional,
    "digits-network": network,
    "digits-kernels": kernels,
}
