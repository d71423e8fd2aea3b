"""Builds the studies of the tuning benchmark's problems from parameters and metrics."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trainshed.model.study import (
    SEARCH_RULE,
    Condition,
    Goal,
    Metric,
    ParameterKind,
    ParameterSpec,
    Safety,
    Scale,
    StudySpec,
)
from trainshed.model.trials import Value

METRIC = "loss"
Chosen = Mapping[str, Value]
Measure = Callable[[Chosen], tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A study, and the function that its trials measure."""

    study: StudySpec
    measure: Measure
    """Returns the exact values of all metrics of the study, NaN if the trial fails."""
    floor: float | None = 0.0
    """The least score (``scores``) that can be reached; None: unknown."""
    noise: float = 0.0
    """The deviation of what a trial reports from the exact value of its first metric."""
    reference: tuple[float, ...] | None = None
    """The point below which the hypervolume of several objectives is measured."""

    @property
    def has_limits(self) -> bool:
        """Whether a trial can break a limit."""
        return any(metric.safety for metric in self.study.metrics)


def double(name: str, low: float, high: float, scale: Scale = Scale.LINEAR) -> ParameterSpec:
    """Return a parameter of the kind DOUBLE."""
    return ParameterSpec(
        parameter_id=name, kind=ParameterKind.DOUBLE, bounds=(low, high), scale=scale
    )


def integer(name: str, low: int, high: int, scale: Scale = Scale.LINEAR) -> ParameterSpec:
    """Return a parameter of the kind INTEGER."""
    return ParameterSpec(
        parameter_id=name, kind=ParameterKind.INTEGER, bounds=(low, high), scale=scale
    )


def category(name: str, *words: str, **children: tuple[ParameterSpec, ...]) -> ParameterSpec:
    """Return a parameter of the kind CATEGORICAL, with conditional parameters by its values."""
    conditions = tuple(
        Condition(parent_values=(word,), parameter=child)
        for word, parameters in children.items()
        for child in parameters
    )
    return ParameterSpec(
        parameter_id=name, kind=ParameterKind.CATEGORICAL, values=words, conditions=conditions
    )


def minimised(name: str, limit: float | None = None) -> Metric:
    """Return an objective to minimise, or a metric that must not exceed ``limit``."""
    safety = None if limit is None else Safety(threshold=limit)
    return Metric(metric_id=name, goal=Goal.MINIMIZE, safety=safety)


def study_of(*parameters: ParameterSpec, metrics: tuple[Metric, ...] = ()) -> StudySpec:
    """Return a study that by default minimises one metric, the loss."""
    return StudySpec(
        metrics=metrics or (minimised(METRIC),),
        parameters=parameters,
        trial_count_max=1000,
        search_rule=SEARCH_RULE,
    )
