"""Parses the study of a HyperparameterSpec of ``ml/v1`` (docs/sources/vertex.md 7.1)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainshed.model.faults import Violation
from trainshed.model.study import DecayCurveRule, Metric, ParameterKind, ParameterSpec, StudySpec
from trainshed.wire.ml_v1.words import HYPERPARAMETERS
from trainshed.wire.parsed import as_written
from trainshed.wire.study_words import ALGORITHM, GOAL, SCALE, bounds_of

#: The default metric of a study.
DEFAULT_METRIC: Final = "training/hptuning/metric"

#: The fields that a parameter of each type must not have (docs/sources/vertex.md 7.1).
#: DISCRETE ignores bounds, as documented; many old files have them.
MISPLACED: Final[Mapping[str, tuple[str, ...]]] = {
    "DOUBLE": ("categoricalValues", "discreteValues"),
    "INTEGER": ("categoricalValues", "discreteValues"),
    "CATEGORICAL": ("minValue", "maxValue", "discreteValues"),
    "DISCRETE": ("categoricalValues",),
}

Json = Mapping[str, Any]


def study_of(value: Json | None) -> StudySpec | None:
    """Parse a HyperparameterSpec, None for None; leaves out parameters without a valid type."""
    if value is None:
        return None
    params = value.get("params", ())
    tag = value.get("hyperparameterMetricTag") or DEFAULT_METRIC
    return StudySpec(
        metrics=(Metric(metric_id=tag, goal=GOAL[value.get("goal", "GOAL_TYPE_UNSPECIFIED")]),),
        parameters=tuple(_parameter(parameter) for parameter in params if _has_type(parameter)),
        algorithm=ALGORITHM[value.get("algorithm", "ALGORITHM_UNSPECIFIED")],
        trial_count_max=value.get("maxTrials", 1),
        trial_count_parallel=value.get("maxParallelTrials", 1),
        trial_count_failed_max=value.get("maxFailedTrials", 0),
        stopping=DecayCurveRule() if value.get("enableTrialEarlyStopping") else None,
        resume_previous_job_id=value.get("resumePreviousJobId") or None,
    )


def missing_types(value: Json | None, document: Json) -> Iterator[Violation]:
    """Yield violations of parameters without a valid type, which Google refuses too."""
    for path, parameter in _params(value):
        if not _has_type(parameter):
            yield Violation(
                field=as_written(document, f"{path}.type"),
                rule="unknown-value",
                message="a parameter must have a type",
                accepted=", ".join(MISPLACED),
            )


def misplaced(value: Json | None, document: Json) -> Iterator[Violation]:
    """Yield violations of fields that a parameter's type does not have.

    Zeros and empty lists are ignored, because some programs write all fields.
    """
    for path, parameter in _params(value):
        kind = parameter.get("type")
        for name in MISPLACED.get(str(kind), ()):
            if parameter.get(name):
                yield Violation(
                    field=as_written(document, f"{path}.{name}"),
                    rule="study-values",
                    message=f"a parameter of type {kind} has no {name}",
                    accepted=f"leave it out, or another type than {kind}",
                )


def _params(value: Json | None) -> Iterator[tuple[str, Json]]:
    for index, parameter in enumerate((value or {}).get("params", ())):
        yield f"{HYPERPARAMETERS}.params[{index}]", parameter


def _has_type(value: Json) -> bool:
    return value.get("type") in MISPLACED


def _parameter(value: Json) -> ParameterSpec:
    """Return a parameter without the fields that its type does not have."""
    kind = ParameterKind(value["type"])
    values = {
        ParameterKind.CATEGORICAL: tuple(value.get("categoricalValues", ())),
        ParameterKind.DISCRETE: tuple(float(number) for number in value.get("discreteValues", ())),
    }
    return ParameterSpec(
        parameter_id=value.get("parameterName", ""),
        kind=kind,
        bounds=None if kind in values else bounds_of(value),
        values=values.get(kind, ()),
        scale=SCALE[value.get("scaleType", "NONE")],
    )
