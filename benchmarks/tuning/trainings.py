"""Defines two problems of the tuning benchmark: small trainings on scikit-learn's digits."""

import math
import warnings
from functools import lru_cache, partial
from typing import Any

import numpy as np

from benchmarks.tuning.spaces import Chosen, Problem, category, double, integer, study_of
from trainshed.model.study import Scale


def network(seed: int) -> Problem:
    """Return the problem of a small network; the loss is the cross entropy on test digits."""
    study = study_of(
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


def kernels(seed: int) -> Problem:
    """Return the problem of a support vector machine, with parameters for each kernel."""
    gamma = double("gamma", 1e-5, 1e1, Scale.LOG)
    study = study_of(
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
        warnings.simplefilter("ignore")  # six epochs do not converge, as intended
        try:
            guess = model.fit(train, train_is).predict_proba(test)
        except ValueError:
            return math.nan  # weights overflowed: the trial has failed
    return float(log_loss(test_is, guess, labels=range(10)))


def _margin_loss(model: Any, seed: int) -> float:
    """Return the error rate plus a penalty for small margins, which makes the loss smoother."""
    train, test, train_is, test_is = _digits(seed)
    scores = model.fit(train, train_is).decision_function(test)
    own = scores[np.arange(len(test)), test_is]
    best_other = np.where(np.eye(10, dtype=bool)[test_is], -np.inf, scores).max(axis=1)
    return float(
        np.mean(best_other >= own) + 0.1 * np.mean(np.maximum(0.0, 0.8 - (own - best_other)))
    )


@lru_cache(maxsize=8)
def _digits(seed: int) -> tuple[Any, ...]:
    from sklearn.datasets import load_digits  # noqa: PLC0415  # slow to load

    data, labels = load_digits(return_X_y=True)
    order = np.random.default_rng([3, seed]).permutation(len(data))
    train, test = order[:600], order[600:1200]
    return data[train] / 16, data[test] / 16, labels[train], labels[test]
