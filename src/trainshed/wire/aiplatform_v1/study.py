"""A HyperparameterTuningJob's study to the model's (R19; contracts/vertex-sdk.md 8)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from trainshed.model.faults import Violation
from trainshed.model.study import (
    Condition,
    Metric,
    ParameterKind,
    ParameterSpec,
    StudySpec,
)
from trainshed.wire.study_words import ALGORITHM, GOAL, SCALE, bounds_of

#: The alternatives by which a trial is stopped early; which of them is left to the echo.
STOPPING: Final = (
    "decayCurveStoppingSpec",
    "medianAutomatedStoppingSpec",
    "convexAutomatedStoppingSpec",
)

Json = Mapping[str, Any]


def study_of(job: Json) -> StudySpec:
    """The study of a tuning job; counts that are not given are as gcloud sends them (6.1)."""
    study = job.get("studySpec", {})
    return StudySpec(
        metrics=tuple(map(_metric, study.get("metrics", ()))),
        parameters=tuple(map(_parameter, study.get("parameters", ()))),
        algorithm=ALGORITHM[study.get("algorithm", "ALGORITHM_UNSPECIFIED")],
        trial_count_max=job.get("maxTrialCount", 1),
        trial_count_parallel=job.get("parallelTrialCount", 1),
        trial_count_failed_max=job.get("maxFailedTrialCount", 0),
        early_stopping=any(name in study for name in STOPPING),
    )


def missing_values(job: Json) -> Iterator[Violation]:
    """The parameters of a tuning job that say no values; conditional ones included."""
    for index, each in enumerate(job.get("studySpec", {}).get("parameters", ())):
        yield from _missing_values(each, f"studySpec.parameters[{index}]")


def _missing_values(parameter: Json, path: str) -> Iterator[Violation]:
    if not any(name in parameter for name in VALUES):
        yield _without_values(path)
    for index, each in enumerate(parameter.get("conditionalParameterSpecs", ())):
        inner = f"{path}.conditionalParameterSpecs[{index}].parameterSpec"
        yield from _missing_values(each.get("parameterSpec", {}), inner)


def _without_values(at: str) -> Violation:
    accepted = f"exactly one of {', '.join(VALUES)}"
    message = "a parameter needs its values"
    return Violation(field=at, rule="exactly-one-of", message=message, accepted=accepted)


def _metric(value: Json) -> Metric:
    goal = GOAL[value.get("goal", "GOAL_TYPE_UNSPECIFIED")]
    return Metric(metric_id=value.get("metricId", ""), goal=goal)


def _parameter(value: Json) -> ParameterSpec:
    """A parameter; one that says no values at all is a list of none."""
    name = next((name for name in VALUES if name in value), "discreteValueSpec")
    kind, read = VALUES[name]
    return ParameterSpec(
        parameter_id=value.get("parameterId", ""),
        kind=kind,
        scale=SCALE[value.get("scaleType", "SCALE_TYPE_UNSPECIFIED")],
        conditions=tuple(map(_condition, value.get("conditionalParameterSpecs", ()))),
        **read(value.get(name, {})),
    )


def _bounds(value: Json) -> Json:
    return {"bounds": bounds_of(value)}


def _names(value: Json) -> Json:
    return {"values": tuple(value.get("values", ()))}


def _numbers(value: Json) -> Json:
    return {"values": tuple(float(each) for each in value.get("values", ()))}


#: The alternatives of a parameter's values, and how each is read.
VALUES: Final[Mapping[str, tuple[ParameterKind, Callable[[Json], Json]]]] = {
    "doubleValueSpec": (ParameterKind.DOUBLE, _bounds),
    "integerValueSpec": (ParameterKind.INTEGER, _bounds),
    "categoricalValueSpec": (ParameterKind.CATEGORICAL, _names),
    "discreteValueSpec": (ParameterKind.DISCRETE, _numbers),
}


#: The alternatives of a parent's values.
PARENT_VALUES: Final[Mapping[str, Callable[[Json], Json]]] = {
    "parentDiscreteValues": _numbers,
    "parentIntValues": _numbers,
    "parentCategoricalValues": _names,
}


def _condition(value: Json) -> Condition:
    given = (read(value[name])["values"] for name, read in PARENT_VALUES.items() if name in value)
    return Condition(
        parent_values=next(given, ()), parameter=_parameter(value.get("parameterSpec", {}))
    )
