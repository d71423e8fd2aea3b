"""Builds problems of the tuning benchmark with several metrics, and scores their trials.

The score of a problem with limits is the least loss of a safe trial; the score of a problem with
several objectives is the hypervolume of its safe trials, the space between them and a reference
point.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.tuning.spaces import METRIC, Chosen, category, double, integer
from trainshed.model.study import SEARCH_RULE, Goal, Metric, ParameterSpec, Safety, Scale, StudySpec

Array = NDArray[np.float64]

#: Measures a point: the value of each metric; less is better.
Measure = Callable[[Chosen], Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsProblem:
    """A study of several metrics, and the function that its trials measure."""

    study: StudySpec
    measure: Measure
    truth: Measure | None = None
    """The values without noise, which are scored; None: ``measure`` has no noise."""
    best: float | None = None
    """The least safe loss, or the largest hypervolume; None if it is unknown."""
    reference: tuple[float, ...] = ()
    """The worst values that count, for the objectives in the study's order; empty: one loss."""

    def scores(self, points: Sequence[Chosen]) -> tuple[float, ...]:
        """Return the score after each trial: less is better for one loss, more for several."""
        rows = [(self.truth or self.measure)(point) for point in points]
        if not self.reference:
            return _least_losses(self.study, rows)
        return tuple(self._volume(rows[: count + 1]) for count in range(len(rows)))

    def _volume(self, rows: Sequence[Mapping[str, float]]) -> float:
        goals = [metric.metric_id for metric in self.study.metrics if metric.safety is None]
        safe = [[row[goal] for goal in goals] for row in rows if is_safe(self.study, row)]
        return hypervolume(np.array(safe).reshape(-1, len(goals)), np.array(self.reference))


def study_with(metrics: Sequence[Metric], *parameters: ParameterSpec) -> StudySpec:
    """Return a study of some metrics."""
    return StudySpec(
        metrics=tuple(metrics), parameters=parameters, trial_count_max=1000, search_rule=SEARCH_RULE
    )


def three_models() -> tuple[ParameterSpec, ParameterSpec]:
    """Return the choice of a model, each with parameters of its own, and a parameter of all."""
    models = category(
        "model",
        "linear",
        "tree",
        "network",
        linear=(double("l2", 1e-6, 1.0, Scale.LOG),),
        tree=(integer("depth", 1, 21), double("shrinkage", 0.001, 1.0, Scale.LOG)),
        network=(double("width", 0, 1), double("mix", 0, 1)),
    )
    return models, double("clip", 0, 1)


def goal(name: str) -> Metric:
    """Return a metric to minimise."""
    return Metric(metric_id=name, goal=Goal.MINIMIZE)


def limited(*limits: Metric) -> tuple[Metric, ...]:
    """Return the loss and some limits."""
    return (goal(METRIC), *limits)


def limit(name: str, threshold: float = 0.0, fraction_min: float = 0.0) -> Metric:
    """Return a metric that must not be above ``threshold``."""
    safety = Safety(threshold=threshold, fraction_min=fraction_min)
    return Metric(metric_id=name, goal=Goal.MINIMIZE, safety=safety)


def is_safe(study: StudySpec, row: Mapping[str, float]) -> bool:
    """Whether the values meet all limits."""
    return all(
        row[metric.metric_id] <= metric.safety.threshold
        for metric in study.metrics
        if metric.safety is not None
    )


def hypervolume(points: Array, reference: Array) -> float:
    """Return the volume of what some points are better than, up to the reference point."""
    inside = _front(points[(points < reference).all(axis=1)])
    if not len(inside):
        return 0.0
    if points.shape[1] == 1:
        return float(reference[0] - inside.min())
    ordered = inside[np.argsort(inside[:, -1], kind="stable")]
    heights = np.append(ordered[1:, -1], reference[-1]) - ordered[:, -1]
    return math.fsum(
        float(height) * hypervolume(ordered[: count + 1, :-1], reference[:-1])
        for count, height in enumerate(heights)
        if height > 0
    )


def _front(points: Array) -> Array:
    """Return the points that no other point dominates, each once."""
    rows = np.unique(points, axis=0)
    no_worse = (rows[:, None, :] <= rows[None, :, :]).all(axis=2)
    return np.asarray(rows[no_worse.sum(axis=0) == 1])


def _least_losses(study: StudySpec, rows: Sequence[Mapping[str, float]]) -> tuple[float, ...]:
    losses = [row[METRIC] if is_safe(study, row) else math.inf for row in rows]
    return tuple(np.minimum.accumulate(losses).tolist())
