"""A HyperparameterSpec of ``ml/v1`` to the model's study (R19; vertex-sdk.md 7.1)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from trainshed.model.faults import Violation
from trainshed.model.study import (
    Metric,
    ParameterKind,
    ParameterSpec,
    StudySpec,
)
from trainshed.wire.spelling import as_written
from trainshed.wire.study_words import ALGORITHM, GOAL, SCALE, bounds_of

#: The metric of a study that names none.
DEFAULT_METRIC: Final = "training/hptuning/metric"

Json = Mapping[str, Any]


def study_of(value: Json | None) -> StudySpec | None:
    """The study of a HyperparameterSpec; parameters with no type are left out."""
    if value is None:
        return None
    params = value.get("params", ())
    tag = value.get("hyperparameterMetricTag", DEFAULT_METRIC)
    return StudySpec(
        metrics=(Metric(metric_id=tag, goal=GOAL[value.get("goal", "GOAL_TYPE_UNSPECIFIED")]),),
        parameters=tuple(KINDS[each["type"]](each) for each in params if _has_type(each)),
        algorithm=ALGORITHM[value.get("algorithm", "ALGORITHM_UNSPECIFIED")],
        trial_count_max=value.get("maxTrials", 1),
        trial_count_parallel=value.get("maxParallelTrials", 1),
        trial_count_failed_max=value.get("maxFailedTrials", 0),
        early_stopping=value.get("enableTrialEarlyStopping", False),
        resume_previous_job_id=value.get("resumePreviousJobId"),
    )


def missing_types(value: Json | None, document: Json) -> Iterator[Violation]:
    """The parameters that say no type, which the service refuses too."""
    for index, each in enumerate((value or {}).get("params", ())):
        if not _has_type(each):
            path = f"trainingInput.hyperparameters.params[{index}].type"
            yield Violation(
                field=as_written(document, path),
                rule="unknown-value",
                message="a parameter needs a type",
                accepted=", ".join(KINDS),
            )


def _has_type(value: Json) -> bool:
    return value.get("type") in KINDS


def _range(value: Json) -> ParameterSpec:
    return ParameterSpec(
        parameter_id=value.get("parameterName", ""),
        kind=ParameterKind(value["type"]),
        bounds=bounds_of(value),
        scale=SCALE[value.get("scaleType", "NONE")],
    )


def _categorical(value: Json) -> ParameterSpec:
    return ParameterSpec(
        parameter_id=value.get("parameterName", ""),
        kind=ParameterKind.CATEGORICAL,
        values=tuple(value.get("categoricalValues", ())),
    )


def _discrete(value: Json) -> ParameterSpec:
    return ParameterSpec(
        parameter_id=value.get("parameterName", ""),
        kind=ParameterKind.DISCRETE,
        values=tuple(float(each) for each in value.get("discreteValues", ())),
        scale=SCALE[value.get("scaleType", "NONE")],
    )


#: How each type of parameter is read; the unspecified one is an error (vertex-sdk.md 7.1).
KINDS: Final[Mapping[str, Callable[[Json], ParameterSpec]]] = {
    "DOUBLE": _range,
    "INTEGER": _range,
    "CATEGORICAL": _categorical,
    "DISCRETE": _discrete,
}
