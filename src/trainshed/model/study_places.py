"""The places in a study that a rule can name: a field, and its metric or parameter.

A place has the model's names.  Each dialect turns it into the name of its own field; a dialect
without such a field names the whole study.
"""

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # most commands of a terminal read no study
    from trainshed.model.study import ParameterSpec


class StudyField(enum.Enum):
    """The fields of a study.  Fields of one metric or parameter need its position."""

    STUDY = "study"
    ALGORITHM = "algorithm"
    TRIALS_MAX = "trials_max"
    TRIALS_PARALLEL = "trials_parallel"
    TRIALS_FAILED = "trials_failed"
    METRICS = "metrics"
    PARAMETERS = "parameters"
    # of one metric
    METRIC_ID = "metric_id"
    SAFETY = "safety"
    SAFETY_THRESHOLD = "safety_threshold"
    SAFETY_FRACTION = "safety_fraction"
    # of one parameter
    PARAMETER_ID = "parameter_id"
    KIND = "kind"
    LEAST = "least"
    MOST = "most"
    VALUES = "values"
    SCALE = "scale"
    DEFAULT = "default"
    CONDITION = "condition"
    """The values of the parent with which a parameter exists."""
    # of the rule by which trials are stopped early
    STOPPING = "stopping"
    STEPS_MAX = "steps_max"
    STEPS_MIN = "steps_min"
    MEASUREMENTS_MIN = "measurements_min"
    LEARNING_RATE = "learning_rate"
    # of the rules by which the study ends
    RUNTIME_MIN = "runtime_min"
    RUNTIME_MAX = "runtime_max"
    ENDING_TRIALS_MIN = "ending_trials_min"
    ENDING_TRIALS_MAX = "ending_trials_max"
    TRIALS_WITHOUT_PROGRESS = "trials_without_progress"
    TIME_WITHOUT_PROGRESS = "time_without_progress"


@dataclass(frozen=True)
class StudyPlace:
    """A field of a study.

    ``at`` of a metric is (its number,).  ``at`` of a parameter is its number in the study, then the
    number of the condition at each level below: (1, 0) is the parameter in the first condition of
    the second parameter.
    """

    field: StudyField
    at: tuple[int, ...] = ()


def placed(
    parameters: "Sequence[ParameterSpec]",
) -> "Iterator[tuple[tuple[int, ...], ParameterSpec]]":
    """Yield every parameter of a study with its position, children after their parent."""
    for index, parameter in enumerate(parameters):
        yield from _below((index,), parameter)


def _below(
    at: tuple[int, ...], parameter: "ParameterSpec"
) -> "Iterator[tuple[tuple[int, ...], ParameterSpec]]":
    yield at, parameter
    for index, condition in enumerate(parameter.conditions):
        yield from _below((*at, index), condition.parameter)


def parameter_at(
    parameters: "Sequence[ParameterSpec]", at: tuple[int, ...]
) -> "ParameterSpec | None":
    """Return the parameter at a position; None if there is none."""
    parameter = parameters[at[0]] if at and at[0] < len(parameters) else None
    for index in at[1:]:
        if parameter is None or index >= len(parameter.conditions):
            return None
        parameter = parameter.conditions[index].parameter
    return parameter
