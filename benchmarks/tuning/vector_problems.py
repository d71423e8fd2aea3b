"""Adds to the problems of ``limits`` and ``fronts`` a shifted one and two trainings."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from benchmarks.tuning.classical import ackley
from benchmarks.tuning.flat_problems import shift
from benchmarks.tuning.fronts import FRONTS
from benchmarks.tuning.limits import LIMITS
from benchmarks.tuning.metrics import MetricsProblem
from benchmarks.tuning.spaces import (
    METRIC,
    Chosen,
    Problem,
    double,
    integer,
    minimised,
    study_of,
)
from benchmarks.tuning.trainings import NETWORK, TREES, network_loss, trees_values
from trainshed.model.study import Goal, Metric, Scale

#: The largest accepted number of nodes of all trees.
NODES_MAX: Final = 300.0
ALL: Final = {**LIMITS, **FRONTS}


def _ackley_limit(seed: int) -> Problem:
    """Return Ackley in 4 dimensions with two limits; 3 % of the space is feasible."""
    metrics = (minimised(METRIC), minimised("total", 0.0), minimised("radius", 5.0))
    names = [f"x{i}" for i in range(4)]
    move = 2.5 + 5 * shift(4, seed)
    study = study_of(*(double(name, -5, 10) for name in names), metrics=metrics)

    def measure(chosen: Chosen) -> tuple[float, ...]:
        z = np.array([float(chosen[name]) for name in names]) - move
        return ackley(z), float(np.sum(z)), float(np.sqrt(np.sum(z**2)))

    return Problem(study=study, measure=measure)


def _trees_limit(seed: int) -> Problem:
    """Return the boosted trees, of which the best with few nodes is wanted."""
    metrics = (Metric(metric_id="r2", goal=Goal.MAXIMIZE), minimised("nodes", NODES_MAX))
    study = study_of(*TREES, metrics=metrics)

    def measure(chosen: Chosen) -> tuple[float, ...]:
        loss, nodes = trees_values(seed, chosen)
        return 1 - loss, nodes

    return Problem(study=study, measure=measure, floor=None)


def _network_size(seed: int) -> Problem:
    """Return the network on digits, of which good and small ones are wanted."""
    units = integer("units", 4, 64, Scale.LOG)
    rest = tuple(spec for spec in NETWORK if spec.parameter_id != "units")
    study = study_of(*rest, units, metrics=(minimised(METRIC), minimised("weights")))

    def measure(chosen: Chosen) -> tuple[float, ...]:
        weights = (64 + 1 + 10) * int(chosen["units"]) + 10
        return network_loss(seed, chosen), weights / 1000

    return Problem(study=study, measure=measure, reference=(2.5, 5.0), floor=None)


def _from(make: Callable[[int], MetricsProblem]) -> Callable[[int], Problem]:
    def adapted(seed: int) -> Problem:
        target = make(seed)
        names = [metric.metric_id for metric in target.study.metrics]

        def measure(chosen: Chosen) -> tuple[float, ...]:
            values = target.measure(chosen)
            return tuple(values[name] for name in names)

        sign = -1 if target.reference else 1
        return Problem(
            study=target.study,
            measure=measure,
            floor=None if target.best is None else sign * target.best,
            reference=target.reference or None,
        )

    return adapted


PROBLEMS: Final[Mapping[str, Callable[[int], Problem]]] = {
    **{name: _from(make) for name, make in ALL.items() if make(0).truth is None},
    "ackley-limit": _ackley_limit,
    "diabetes-trees-limit": _trees_limit,
    "digits-network-size": _network_size,
}
