"""What a tuning study is: parameters, metrics, algorithm and stopping rules (R19)."""

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


class Goal(enum.Enum):
    """Which way a metric is better."""

    MAXIMIZE = "MAXIMIZE"
    MINIMIZE = "MINIMIZE"


class ParameterKind(enum.Enum):
    """What values a parameter takes."""

    DOUBLE = "DOUBLE"
    INTEGER = "INTEGER"
    CATEGORICAL = "CATEGORICAL"
    DISCRETE = "DISCRETE"


class Scale(enum.Enum):
    """How a numeric range is stretched before it is searched."""

    NONE = "NONE"
    LINEAR = "LINEAR"
    LOG = "LOG"
    REVERSE_LOG = "REVERSE_LOG"


class Algorithm(enum.Enum):
    """How the next trial is chosen; DEFAULT is the Bayesian one."""

    DEFAULT = "DEFAULT"
    GRID_SEARCH = "GRID_SEARCH"
    RANDOM_SEARCH = "RANDOM_SEARCH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One measured quantity and its goal."""

    metric_id: str
    goal: Goal = Goal.MAXIMIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A child parameter that exists only while its parent has one of these values."""

    parent_values: tuple[str | float, ...]
    parameter: "ParameterSpec"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSpec:
    """One dimension of the search space; ``bounds`` for ranges, ``values`` for lists."""

    parameter_id: str
    kind: ParameterKind
    bounds: tuple[float, float] | None = None
    values: tuple[str | float, ...] = ()
    scale: Scale = Scale.NONE
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySpec:
    """The whole study; counts of 0 mean that the service decides."""

    metrics: tuple[Metric, ...]
    parameters: tuple[ParameterSpec, ...]
    algorithm: Algorithm = Algorithm.DEFAULT
    trial_count_max: int = 1
    trial_count_parallel: int = 1
    trial_count_failed_max: int = 0
    early_stopping: bool = False
    resume_previous_job_id: str | None = None
    is_whole: bool = True
    """False when a part of the caller's study could not be read, and is absent here."""


def parameters_of(study: StudySpec) -> Iterator[ParameterSpec]:
    """Every parameter of a study, conditional ones at any depth behind their parent."""
    return (parameter for parameter, _ in occurrences(study.parameters))


def occurrences(
    parameters: Sequence[ParameterSpec],
    under: Mapping[object, frozenset[str | float]] | None = None,
    at: tuple[int, ...] = (),
) -> Iterator[tuple[ParameterSpec, Mapping[object, frozenset[str | float]]]]:
    """Every parameter, with the values that each parent above it must have.

    A parent is known by its position ``at``: names may be given twice (vertex-sdk.md 8).
    """
    conditions = under or {}
    for index, parameter in enumerate(parameters):
        own = (*at, index)
        yield parameter, conditions
        for number, condition in enumerate(parameter.conditions):
            inner = {**conditions, own: frozenset(condition.parent_values)}
            yield from occurrences([condition.parameter], inner, (*own, number))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One suggestion: its number as a string from "1", and a value a parameter (R19)."""

    trial_id: str
    parameters: tuple[tuple[str, str], ...] = ()
