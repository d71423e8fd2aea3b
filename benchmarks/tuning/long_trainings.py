"""Trainings that report a value after each step, for the benchmark of early rungs.

Each of them trains on scikit-learn's digits and yields, after each step, the value of the study's
metric on validation images.  ``KeptCurves`` keeps the values and the CPU seconds of each step, in a
file too, so that a training runs once for all strategies and further runs of the benchmark.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.harness import ROOT
from benchmarks.tuning.spaces import Chosen, double, integer, study_of
from trainshed.model.study import SEARCH_RULE, Scale, StudySpec
from trainshed.model.trials import Values
from trainshed.wire.aiplatform_v1.study import study_of as vertex_study_of

EXAMPLE = ROOT / "examples/tuning"
sys.path.insert(0, str(EXAMPLE))


@dataclass(frozen=True, kw_only=True)
class LongTraining:
    """A trainer and its study; ``learn`` yields the metric after each of ``reports`` reports."""

    study: StudySpec
    reports: int
    """The number of reports of a whole training."""
    stride: int
    """The steps from a report to the next one."""
    learn: Callable[[int, Chosen], Iterator[float]]
    """Trains with a seed and the values of a trial."""


def example() -> LongTraining:
    """Return the training of examples/tuning, without the shifted images: 50 epochs."""
    job = yaml.safe_load((EXAMPLE / "hpt.yaml").read_text())
    study = replace(vertex_study_of(job), search_rule=SEARCH_RULE)
    return LongTraining(study=study, reports=50, stride=1, learn=learn_example)


def learn_example(seed: int, values: Chosen) -> Iterator[float]:
    """Yield the accuracy on the validation images after each epoch."""
    data: Any = import_module("trainer.data")
    network: Any = import_module("trainer.network")
    data.SPLIT_SEED, data.NUDGES = seed, ((0, 0),)
    built = network.build(
        **{**values, **{key: int(values[key]) for key in ("hidden_units", "batch_size")}},
        seed=seed,
    )
    begun: Iterator[float] = network.learn(built, *data.load(), 50)
    return begun


def network() -> LongTraining:
    """Return a network with two hidden layers, in NumPy: 200 epochs, a report after every fifth."""
    study = study_of(
        double("rate", 1e-3, 1e0, Scale.LOG),
        double("decay", 1e-6, 1e-1, Scale.LOG),
        double("momentum", 0.0, 0.99),
        integer("units", 8, 64, Scale.LOG),
        integer("batch", 32, 256, Scale.LOG),
    )
    return LongTraining(study=study, reports=40, stride=5, learn=learn_network)


def learn_network(seed: int, values: Chosen) -> Iterator[float]:
    """Yield the cross entropy on the validation images after every fifth epoch."""
    train, test, train_labels, test_labels = _digits(seed)
    random = np.random.default_rng([7, seed])
    units = int(values["units"])
    shapes = ((64, units), (units, units), (units, 10))
    weights = [random.normal(0, (2 / shape[0]) ** 0.5, shape).astype("f4") for shape in shapes]
    speeds = [np.zeros_like(one) for one in weights]
    rate, decay, momentum = (float(values[name]) for name in ("rate", "decay", "momentum"))
    targets = np.eye(10, dtype="f4")[train_labels]
    while True:
        with np.errstate(all="ignore"):  # weights may overflow; the loss is then 10
            for _ in range(5):
                for rows in np.array_split(
                    random.permutation(len(train)), len(train) // int(values["batch"])
                ):
                    for layer, slope in enumerate(_slopes(weights, train[rows], targets[rows])):
                        speeds[layer] *= momentum
                        speeds[layer] -= rate * (slope + decay * weights[layer])
                        weights[layer] += speeds[layer]
            chances = _forward(weights, test)[-1][np.arange(len(test)), test_labels]
            loss = -float(np.mean(np.log(np.maximum(chances, 1e-30))))
        yield min(loss, 10.0) if np.isfinite(loss) else 10.0


def _forward(weights: list[Any], images: Any) -> list[Any]:
    """Return the output of each layer; the last one are the chances of the digits."""
    outputs = [images]
    for matrix in weights[:-1]:
        outputs.append(np.maximum(outputs[-1] @ matrix, 0))
    scores = outputs[-1] @ weights[-1]
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return [*outputs, powers / powers.sum(axis=1, keepdims=True)]


def _slopes(weights: list[Any], images: Any, targets: Any) -> list[Any]:
    """Return the slope of the cross entropy for each layer's weights."""
    *outputs, chances = _forward(weights, images)
    error, slopes = (chances - targets) / len(images), []
    for layer in reversed(range(len(weights))):
        slopes.append(outputs[layer].T @ error)
        error = (error @ weights[layer].T) * (outputs[layer] > 0)
    return slopes[::-1]


def boosting() -> LongTraining:
    """Return gradient boosting of trees: 200 stages, a report after every tenth."""
    study = study_of(
        double("rate", 5e-3, 1e0, Scale.LOG),
        integer("depth", 1, 6),
        double("rows", 0.2, 1.0),
        double("columns", 0.05, 1.0, Scale.LOG),
        integer("leaf", 1, 40, Scale.LOG),
    )
    return LongTraining(study=study, reports=20, stride=10, learn=learn_boosting)


def learn_boosting(seed: int, values: Chosen) -> Iterator[float]:
    """Yield the log loss of "the digit is above 4" after every tenth stage."""
    from sklearn.ensemble import GradientBoostingClassifier  # noqa: PLC0415  # slow to load
    from sklearn.metrics import log_loss  # noqa: PLC0415  # slow to load

    train, test, train_labels, test_labels = _digits(seed)
    model = GradientBoostingClassifier(
        learning_rate=float(values["rate"]),
        max_depth=int(values["depth"]),
        subsample=float(values["rows"]),
        max_features=float(values["columns"]),
        min_samples_leaf=int(values["leaf"]),
        n_estimators=0,
        warm_start=True,
        random_state=seed,
    )
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a rate of 1 may overflow
            model.set_params(n_estimators=model.n_estimators + 10)
            model.fit(train, train_labels > 4)  # the upper half of the digits
            guess = np.nan_to_num(model.predict_proba(test), nan=0.5)
        yield min(float(log_loss(test_labels > 4, guess)), 10.0)  # as above


TRAININGS: Mapping[str, Callable[[], LongTraining]] = {
    "digits": example,
    "network": network,
    "boosting": boosting,
}


def _digits(seed: int) -> tuple[Any, ...]:
    """Return 600 images to train with and 600 to validate with, and their labels."""
    from sklearn.datasets import load_digits  # noqa: PLC0415  # slow to load

    data, labels = load_digits(return_X_y=True)
    order = np.random.default_rng([5, seed]).permutation(len(data))
    images = (data / 16).astype("f4")
    train, test = order[:600], order[600:1200]
    return images[train], images[test], labels[train], labels[test]


@dataclass(kw_only=True)
class KeptCurves:
    """The learning curves of one training and seed: (value, CPU seconds) of each report."""

    name: str
    seed: int
    training: LongTraining
    file: Path | None = None
    """A line for each curve; curves in the file are not trained again."""
    points: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    _learning: dict[str, Iterator[float]] = field(default_factory=dict)
    _stored: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read the file; the last line of a curve is the longest."""
        if self.file and self.file.exists():
            for line in self.file.read_text().splitlines():
                name, seed, key, curve = json.loads(line)
                if (name, seed) == (self.name, self.seed):
                    self.points[key] = [(value, seconds) for value, seconds in curve]
            self._stored = {key: len(curve) for key, curve in self.points.items()}

    def point(self, values: Values, report: int) -> tuple[float, float]:
        """Return the value of a report, counted from 1, and the CPU seconds since the last one."""
        key = json.dumps(values)
        curve = self.points.setdefault(key, [])
        if len(curve) < report:
            self._learn(key, values, curve, report)
        return curve[report - 1]

    def _learn(
        self, key: str, values: Values, curve: list[tuple[float, float]], report: int
    ) -> None:
        """Train up to a report; a curve from the file is trained again from its beginning."""
        if key not in self._learning:
            self._learning[key] = self.training.learn(self.seed, dict(values))
            for _ in curve:
                next(self._learning[key])
        while len(curve) < report:
            began = time.process_time()
            value = next(self._learning[key])
            curve.append((value, time.process_time() - began))

    def store(self) -> None:
        """Append the curves that have grown to the file."""
        if self.file is None:
            return
        with self.file.open("a") as lines:
            for key, curve in self.points.items():
                if len(curve) > self._stored.get(key, 0):
                    lines.write(json.dumps([self.name, self.seed, key, curve]) + "\n")
                    self._stored[key] = len(curve)
