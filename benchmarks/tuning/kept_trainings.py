"""Defines the trainings that were kept back, on scikit-learn's data of cancer and of wine."""

import math
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np

from benchmarks.tuning.spaces import (
    METRIC,
    Chosen,
    Problem,
    category,
    double,
    integer,
    minimised,
    study_of,
)
from benchmarks.tuning.trainings import DIVISIONS
from trainshed.model.study import Scale

#: The largest accepted number of leaves of all trees.
LEAVES_MAX: Final = 150.0
_TREES: Final = (
    double("rate", 1e-3, 1.0, Scale.LOG),
    integer("trees", 5, 100, Scale.LOG),
    integer("leaves", 2, 32),
    double("subsample", 0.2, 1.0),
    category("split", "best", "random-features", "few-features"),
)


def _trees_values(seed: int, chosen: Chosen) -> tuple[float, float]:
    """Return the cross entropy of boosted trees on test data, and the number of their leaves."""
    from sklearn.ensemble import GradientBoostingClassifier  # noqa: PLC0415  # slow to load

    features = {"best": None, "random-features": 0.5, "few-features": "sqrt"}
    model = GradientBoostingClassifier(
        learning_rate=float(chosen["rate"]),
        n_estimators=int(chosen["trees"]),
        max_leaf_nodes=int(chosen["leaves"]),
        subsample=float(chosen["subsample"]),
        max_features=features[str(chosen["split"])],
        random_state=seed % DIVISIONS,
    )
    loss = _cross_entropy(model, _cancer(seed % DIVISIONS))
    return loss, float(sum(tree.tree_.n_leaves for tree in model.estimators_[:, 0]))


def _trees(seed: int) -> Problem:
    return Problem(
        study=study_of(*_TREES),
        measure=lambda chosen: _trees_values(seed, chosen)[:1],
        floor=None,
    )


def _trees_limit(seed: int) -> Problem:
    metrics = (minimised(METRIC), minimised("leaves", LEAVES_MAX))
    return Problem(
        study=study_of(*_TREES, metrics=metrics),
        measure=lambda chosen: _trees_values(seed, chosen),
        floor=None,
    )


def _trees_size(seed: int) -> Problem:
    return Problem(
        study=study_of(*_TREES, metrics=(minimised(METRIC), minimised("leaves"))),
        measure=lambda chosen: _trees_values(seed, chosen),
        floor=None,
        reference=(0.7, 1000.0),
    )


def _models(seed: int) -> Problem:
    """Return the cross entropy of one of three models on wine, each with its parameters."""
    study = study_of(
        category(
            "model",
            "logistic",
            "forest",
            "bayes",
            logistic=(double("c", 1e-4, 1e3, Scale.LOG), double("mix", 0, 1)),
            forest=(
                integer("trees", 5, 60, Scale.LOG),
                integer("leaf", 1, 20, Scale.LOG),
                double("features", 0.1, 1.0),
            ),
            bayes=(double("smoothing", 1e-9, 1.0, Scale.LOG),),
        ),
        category("scaling", "none", "standard", "range"),
    )
    return Problem(study=study, measure=lambda chosen: (_model_loss(seed, chosen),), floor=None)


def _model_loss(seed: int, chosen: Chosen) -> float:
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415  # slow to load
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415  # slow to load
    from sklearn.naive_bayes import GaussianNB  # noqa: PLC0415  # slow to load

    name = chosen["model"]
    if name == "logistic":
        model: Any = LogisticRegression(
            C=float(chosen["c"]), l1_ratio=float(chosen["mix"]), solver="saga", max_iter=60
        )
    elif name == "forest":
        model = RandomForestClassifier(
            n_estimators=int(chosen["trees"]),
            min_samples_leaf=int(chosen["leaf"]),
            max_features=float(chosen["features"]),
            random_state=seed % DIVISIONS,
        )
    else:
        model = GaussianNB(var_smoothing=float(chosen["smoothing"]))
    return _cross_entropy(_scaled(model, str(chosen["scaling"])), _wine(seed % DIVISIONS))


def _neighbours(seed: int) -> Problem:
    """Return the error rate of nearest neighbours on wine, which has steps of one test row."""
    study = study_of(
        integer("neighbours", 1, 60),
        double("power", 0.5, 5.0),
        category("weights", "uniform", "distance"),
        category("scaling", "none", "standard", "range"),
        integer("components", 1, 13),
    )
    return Problem(study=study, measure=lambda chosen: (_error_rate(seed, chosen),), floor=None)


def _error_rate(seed: int, chosen: Chosen) -> float:
    from sklearn.decomposition import PCA  # noqa: PLC0415  # slow to load
    from sklearn.neighbors import KNeighborsClassifier  # noqa: PLC0415  # slow to load
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415  # slow to load

    neighbours = KNeighborsClassifier(
        n_neighbors=int(chosen["neighbours"]),
        p=float(chosen["power"]),
        weights=str(chosen["weights"]),
        algorithm="brute",
    )
    reduced = make_pipeline(PCA(int(chosen["components"]), svd_solver="full"), neighbours)
    train, test, train_is, test_is = _wine(seed % DIVISIONS)
    model = _scaled(reduced, str(chosen["scaling"])).fit(train, train_is)
    return float(np.mean(model.predict(test) != test_is))


def _scaled(model: Any, scaling: str) -> Any:
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415  # slow to load
    from sklearn.preprocessing import MinMaxScaler, StandardScaler  # noqa: PLC0415  # slow to load

    scalers = {"none": [], "standard": [StandardScaler()], "range": [MinMaxScaler()]}
    return make_pipeline(*scalers[scaling], model)


def _cross_entropy(model: Any, data: tuple[Any, ...]) -> float:
    from sklearn.metrics import log_loss  # noqa: PLC0415  # slow to load

    train, test, train_is, test_is = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few epochs do not converge, as intended
        guess = model.fit(train, train_is).predict_proba(test)
    loss = float(log_loss(test_is, guess, labels=np.unique(train_is)))
    return loss if math.isfinite(loss) else math.nan


@lru_cache(maxsize=8)
def _cancer(seed: int) -> tuple[Any, ...]:
    from sklearn.datasets import load_breast_cancer  # noqa: PLC0415  # slow to load

    data, labels = load_breast_cancer(return_X_y=True)
    return _divided(data, labels, 285, seed)


@lru_cache(maxsize=8)
def _wine(seed: int) -> tuple[Any, ...]:
    from sklearn.datasets import load_wine  # noqa: PLC0415  # slow to load

    data, labels = load_wine(return_X_y=True)
    return _divided(data, labels, 78, seed)


def _divided(data: Any, labels: Any, count: int, seed: int) -> tuple[Any, ...]:
    order = np.random.default_rng([6, seed]).permutation(len(data))
    train, test = order[:count], order[count:]
    return data[train], data[test], labels[train], labels[test]


PROBLEMS: Final[Mapping[str, Callable[[int], Problem]]] = {
    "cancer-trees": _trees,
    "cancer-trees-limit": _trees_limit,
    "cancer-trees-size": _trees_size,
    "wine-models": _models,
    "wine-neighbours": _neighbours,
}
