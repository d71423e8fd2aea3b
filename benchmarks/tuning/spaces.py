"""Builds the studies of the tuning benchmark's problems from parameters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trainshed.model.study import (
    SEARCH_RULE,
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
    """A study and the function that its trials measure."""

    study: StudySpec
    loss: Callable[[Chosen], float]
    floor: float | None = 0.0


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


def study_of(*parameters: ParameterSpec) -> StudySpec:
    """Return a study that minimises one metric, the loss."""
    metric = Metric(metric_id=METRIC, goal=Goal.MINIMIZE)
    return StudySpec(
        metrics=(metric,), parameters=parameters, trial_count_max=1000, search_rule=SEARCH_RULE
    )
