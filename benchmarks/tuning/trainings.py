"""Defines three problems of the tuning benchmark: small trainings on scikit-learn's data."""

import math
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np

from benchmarks.tuning.spaces import Chosen, Problem, category, double, integer, study_of
from trainshed.model.study import ParameterSpec, Scale

NETWORK: Final = (
    double("rate", 1e-5, 1e-1, Scale.LOG),
    double("decay", 1e-7, 1e1, Scale.LOG),
    double("momentum", 0.0, 0.99),
    integer("units", 4, 64, Scale.LOG),
    integer("batch", 8, 256, Scale.LOG),
    category("activation", "relu", "tanh", "logistic"),
)
TREES: Final = (
    double("rate", 1e-2, 1.0, Scale.LOG),
    integer("trees", 10, 200, Scale.LOG),
    integer("depth", 1, 8),
    double("subsample", 0.3, 1.0),
    double("features", 0.1, 1.0),
    integer("leaf", 1, 30, Scale.LOG),
)
#: The number of different divisions of a data set; the seed of a search selects one.
DIVISIONS: Final = 3


def network(seed: int) -> Problem:
    """Return the problem of a small network; the loss is the cross entropy on test digits."""
    return _problem(NETWORK, partial(network_loss, seed))


def kernels(seed: int) -> Problem:
    """Return the problem of a support vector machine, with parameters for each kernel."""
    gamma = double("gamma", 1e-5, 1e1, Scale.LOG)
    poly = (gamma, integer("degree", 2, 5), double("shift", 0, 2))
    parameters = (
        double("c", 1e-3, 1e3, Scale.LOG),
        category("kernel", "linear", "rbf", "poly", rbf=(gamma,), poly=poly),
        category("shrinking", "yes", "no"),
    )
    return _problem(parameters, partial(_kernels_loss, seed))


def trees(seed: int) -> Problem:
    """Return the problem of boosted trees; the loss is the share of unexplained variance."""
    return _problem(TREES, lambda chosen: trees_values(seed, chosen)[0])


def _problem(parameters: tuple[ParameterSpec, ...], loss: Callable[[Chosen], float]) -> Problem:
    study = study_of(*parameters)
    return Problem(study=study, measure=lambda chosen: (loss(chosen),), floor=None)


def network_loss(seed: int, chosen: Chosen) -> float:
    """Return the cross entropy of a network after six epochs; NaN if its weights overflow."""
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
        random_state=seed % DIVISIONS,
    )
    return _cross_entropy(model, seed)


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


def trees_values(seed: int, chosen: Chosen) -> tuple[float, float]:
    """Return the unexplained variance of the test data, and the number of nodes."""
    from sklearn.ensemble import GradientBoostingRegressor  # noqa: PLC0415  # slow to load

    train, test, train_is, test_is = _diabetes(seed % DIVISIONS)
    model = GradientBoostingRegressor(
        learning_rate=float(chosen["rate"]),
        n_estimators=int(chosen["trees"]),
        max_depth=int(chosen["depth"]),
        subsample=float(chosen["subsample"]),
        max_features=float(chosen["features"]),
        min_samples_leaf=int(chosen["leaf"]),
        random_state=seed % DIVISIONS,
    ).fit(train, train_is)
    error = float(np.mean((model.predict(test) - test_is) ** 2))
    nodes = sum(tree.tree_.node_count for tree in model.estimators_[:, 0])
    return error / float(np.var(test_is)), float(nodes)


def _cross_entropy(model: Any, seed: int) -> float:
    from sklearn.metrics import log_loss  # noqa: PLC0415  # slow to load

    train, test, train_is, test_is = _digits(seed % DIVISIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # six epochs do not converge, as intended
        try:
            guess = model.fit(train, train_is).predict_proba(test)
        except ValueError:
            return math.nan  # weights overflowed: the trial has failed
    return float(log_loss(test_is, guess, labels=range(10)))


def _margin_loss(model: Any, seed: int) -> float:
    """Return the error rate plus a penalty for small margins, which makes the loss smoother."""
    train, test, train_is, test_is = _digits(seed % DIVISIONS)
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


@lru_cache(maxsize=8)
def _diabetes(seed: int) -> tuple[Any, ...]:
    from sklearn.datasets import load_diabetes  # noqa: PLC0415  # slow to load

    data, values = load_diabetes(return_X_y=True)
    order = np.random.default_rng([4, seed]).permutation(len(data))
    train, test = order[:300], order[300:]
    return data[train], data[test], values[train], values[test]


PROBLEMS: Final[Mapping[str, Callable[[int], Problem]]] = {
    "digits-network": network,
    "digits-kernels": kernels,
    "diabetes-trees": trees,
}
