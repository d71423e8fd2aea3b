"""What the tuning benchmark searches: functions, mixed and conditional spaces, and two trainings.

Each problem is a study as the service knows it, and a function of the chosen values that is to be
minimised.  ``floor`` is the least value there is; None where nobody knows it.
"""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from tuning_functions import objective

from trainshed.model.study import (
    Condition,
    Goal,
    Metric,
    ParameterKind,
    ParameterSpec,
    Scale,
    StudySpec,
)
from trainshed.model.trials import Value

METRIC = "loss"
Chosen = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A study and what its trials would measure."""

    study: StudySpec
    loss: Callable[[Chosen], float]
    floor: float | None = 0.0


def problem(name: str, dimensions: int, seed: int) -> Problem:
    """By name: a function of ``dimensions``, or one of ``OTHERS`` (which have their own)."""
    if name in OTHERS:
        return OTHERS[name](seed)
    names = [f"x{i:02}" for i in range(dimensions)]
    function = objective(name, dimensions, seed)

    def loss(chosen: Chosen) -> float:
        return function(np.array([float(chosen[each]) for each in names]))

    return Problem(study=_study(*(double(each, -5, 5) for each in names)), loss=loss)


def double(name: str, low: float, high: float, scale: Scale = Scale.LINEAR) -> ParameterSpec:
    """A DOUBLE."""
    return ParameterSpec(
        parameter_id=name, kind=ParameterKind.DOUBLE, bounds=(low, high), scale=scale
    )


def integer(name: str, low: int, high: int, scale: Scale = Scale.LINEAR) -> ParameterSpec:
    """An INTEGER."""
    return ParameterSpec(
        parameter_id=name, kind=ParameterKind.INTEGER, bounds=(low, high), scale=scale
    )


def category(name: str, *words: str, **children: tuple[ParameterSpec, ...]) -> ParameterSpec:
    """A CATEGORICAL, and the parameters that exist beside one of its words only."""
    conditions = tuple(
        Condition(parent_values=(word,), parameter=child)
        for word, below in children.items()
        for child in below
    )
    return ParameterSpec(
        parameter_id=name, kind=ParameterKind.CATEGORICAL, values=words, conditions=conditions
    )


def _study(*parameters: ParameterSpec) -> StudySpec:
    metric = Metric(metric_id=METRIC, goal=Goal.MINIMIZE)
    return StudySpec(metrics=(metric,), parameters=parameters, trial_count_max=1000)


def _mixed(seed: int) -> Problem:
    """Ranges, integers, words and a list, which matter differently and partly together."""
    rng = np.random.default_rng([1, seed])
    words = ("relu", "tanh", "gelu", "elu")
    sizes = (16.0, 32.0, 64.0, 128.0, 256.0)
    goal, costs = rng.uniform(0.15, 0.85, 6), dict(zip(words, rng.permutation(4) * 0.1, strict=True))
    study = _study(
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
    """Three models with parameters of their own, of which one is the best by a little."""
    rng = np.random.default_rng([2, seed])
    goal = rng.uniform(0.2, 0.8, 9)
    handicap = dict(zip(("linear", "tree", "network"), rng.permutation([0, 0.05, 0.3]), strict=True))
    study = _study(
        category(
            "model",
            "linear",
            "tree",
            "network",
            linear=(double("l2", 1e-6, 1.0, Scale.LOG),),
            tree=(integer("depth", 1, 21), double("shrinkage", 0.001, 1.0, Scale.LOG)),
            network=(double("rate", 1e-5, 1e-1, Scale.LOG), double("drop", 0, 1), double("mix", 0, 1)),
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
            away += [2 * (rate - goal[5]), float(chosen["drop"]) - goal[6], float(chosen["mix"]) - rate]
        return float(np.sum(np.square(away)) + handicap[model])

    return Problem(study=study, loss=loss)


def _network(seed: int) -> Problem:
    """A small network on digits: the cross entropy on digits that it has not seen."""
    study = _study(
        double("rate", 1e-5, 1e-1, Scale.LOG),
        double("decay", 1e-7, 1e1, Scale.LOG),
        double("momentum", 0.0, 0.99),
        integer("units", 4, 64, Scale.LOG),
        integer("batch", 8, 256, Scale.LOG),
        category("activation", "relu", "tanh", "logistic"),
    )
    return Problem(study=study, loss=partial(_network_loss, seed), floor=None)


def _network_loss(seed: int, chosen: Chosen) -> float:
    from sklearn.neural_network import MLPClassifier  # noqa: PLC0415  # slow to load

    model = MLPClassifier(
        hidden_layer_sizes=(int(chosen["units"]),),
        activation=str(chosen["activation"]),
        solver="sgd",
        learning_rate_init=float(chosen["rate"]),
        alpha=float(chosen["decay"]),
        momentum=float(chosen["momentum"]),
        batch_size=int(chosen["batch"]),
        max_iter=6,
        random_state=seed,
    )
    return _cross_entropy(model, seed)


def _kernels(seed: int) -> Problem:
    """A support vector machine on digits, whose kernels have parameters of their own."""
    gamma = double("gamma", 1e-5, 1e1, Scale.LOG)
    study = _study(
        double("c", 1e-3, 1e3, Scale.LOG),
        category(
            "kernel",
            "linear",
            "rbf",
            "poly",
            rbf=(gamma,),
            poly=(gamma, integer("degree", 2, 5), double("shift", 0, 2)),
        ),
        category("shrinking", "yes", "no"),
    )
    return Problem(study=study, loss=partial(_kernels_loss, seed), floor=None)


def _kernels_loss(seed: int, chosen: Chosen) -> float:
    from sklearn.svm import SVC  # noqa: PLC0415  # slow to load

    model = SVC(
        C=float(chosen["c"]),
        kernel=str(chosen["kernel"]),
        gamma=float(chosen.get("gamma", 1.0)),
        degree=int(chosen.get("degree", 3)),
        coef0=float(chosen.get("shift", 0.0)),
        shrinking=chosen["shrinking"] == "yes",
        decision_function_shape="ovr",
    )
    return _margin_loss(model, seed)


def _cross_entropy(model: Any, seed: int) -> float:
    from sklearn.metrics import log_loss  # noqa: PLC0415  # slow to load

    train, test, train_is, test_is = _digits(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # six epochs do not converge, and are not meant to
        try:
            guess = model.fit(train, train_is).predict_proba(test)
        except ValueError:
            return math.nan  # weights overflowed: the trial has failed
    return float(log_loss(test_is, guess, labels=range(10)))


def _margin_loss(model: Any, seed: int) -> float:
    """Errors, and how near the others came: smoother than the errors alone."""
    train, test, train_is, test_is = _digits(seed)
    scores = model.fit(train, train_is).decision_function(test)
    own = scores[np.arange(len(test)), test_is]
    others = np.where(np.eye(10, dtype=bool)[test_is], -np.inf, scores).max(axis=1)
    return float(np.mean(others >= own) + 0.1 * np.mean(np.maximum(0.0, 0.8 - (own - others))))


@lru_cache(maxsize=8)
def _digits(seed: int) -> tuple[Any, ...]:
    from sklearn.datasets import load_digits  # noqa: PLC0415  # slow to load

    data, labels = load_digits(return_X_y=True)
    order = np.random.default_rng([3, seed]).permutation(len(data))
    train, test = order[:600], order[600:1200]
    return data[train] / 16, data[test] / 16, labels[train], labels[test]


OTHERS: Mapping[str, Callable[[int], Problem]] = {
    "mixed": _mixed,
    "conditional": _conditional,
    "digits-network": _network,
    "digits-kernels": _kernels,
}
