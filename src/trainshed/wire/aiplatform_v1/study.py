"""Parses the study of a HyperparameterTuningJob (docs/sources/vertex.md 8)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from trainshed.model.faults import Violation
from trainshed.model.study import (
    Condition,
    ConvexRule,
    DecayCurveRule,
    EndingRules,
    MedianRule,
    Metric,
    Noise,
    ParameterKind,
    ParameterSpec,
    Safety,
    Selection,
    StoppingRule,
    StudySpec,
    TimeLimit,
)
from trainshed.wire.study_words import ALGORITHM, GOAL, SCALE, bounds_of
from trainshed.wire.times import seconds

Json = Mapping[str, Any]


def parameter_of(value: Json) -> ParameterSpec:
    """Parse a parameter; without any values it is DISCRETE with no values."""
    name = next((name for name in VALUES if name in value), "discreteValueSpec")
    kind, read = VALUES[name]
    return ParameterSpec(
        parameter_id=value.get("parameterId", ""),
        kind=kind,
        scale=SCALE[value.get("scaleType", "SCALE_TYPE_UNSPECIFIED")],
        conditions=tuple(map(_condition, value.get("conditionalParameterSpecs", ()))),
        **read(value.get(name, {})),
    )


def _range(value: Json) -> Json:
    return {"bounds": bounds_of(value), "default": _number(value.get("defaultValue"))}


def _words(value: Json) -> Json:
    return {"values": tuple(value.get("values", ())), "default": value.get("defaultValue")}


def _numbers(value: Json) -> Json:
    return {"values": _floats(value), "default": _number(value.get("defaultValue"))}


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _floats(value: Json) -> tuple[float, ...]:
    return tuple(float(number) for number in value.get("values", ()))


#: The fields for a parameter's values: the kind of each, and the function that parses it.
VALUES: Final[Mapping[str, tuple[ParameterKind, Callable[[Json], Json]]]] = {
    "doubleValueSpec": (ParameterKind.DOUBLE, _range),
    "integerValueSpec": (ParameterKind.INTEGER, _range),
    "categoricalValueSpec": (ParameterKind.CATEGORICAL, _words),
    "discreteValueSpec": (ParameterKind.DISCRETE, _numbers),
}

#: The fields for a parent parameter's values, and the function that parses each.
PARENT_VALUES: Final[Mapping[str, Callable[[Json], tuple[str | float, ...]]]] = {
    "parentDiscreteValues": _floats,
    "parentIntValues": _floats,
    "parentCategoricalValues": lambda value: tuple(value.get("values", ())),
}


def _condition(value: Json) -> Condition:
    values = (read(value[name]) for name, read in PARENT_VALUES.items() if name in value)
    return Condition(
        parent_values=next(values, ()), parameter=parameter_of(value.get("parameterSpec", {}))
    )


def stopping_of(study: Json) -> StoppingRule | None:
    """Return the rule that stops trials early, None without one; its message may be empty."""
    rules = (read(study[name]) for name, read in STOPPING.items() if name in study)
    return next(rules, None)


def ending_of(value: Json) -> EndingRules:
    """Parse a StudyStoppingConfig, the rules that end a study."""
    return EndingRules(
        stop_asap=value.get("shouldStopAsap", False),
        runtime_min=_limit(value.get("minimumRuntimeConstraint")),
        runtime_max=_limit(value.get("maximumRuntimeConstraint")),
        trial_count_min=value.get("minNumTrials"),
        trial_count_max=value.get("maxNumTrials"),
        trials_without_progress_max=value.get("maxNumTrialsNoProgress"),
        seconds_without_progress_max=seconds(value.get("maxDurationNoProgress")),
    )


def _limit(value: Json | None) -> TimeLimit | None:
    """Parse a StudyTimeConstraint; RFC 3339 also allows ``t`` and ``z``, which become capitals."""
    if value is None:
        return None
    until = value.get("endTime")
    return TimeLimit(
        seconds=seconds(value.get("maxDuration")), until=until.upper() if until else None
    )


def _decay_curve(value: Json) -> DecayCurveRule:
    return DecayCurveRule(by_time=value.get("useElapsedDuration", False))


def _median(value: Json) -> MedianRule:
    return MedianRule(by_time=value.get("useElapsedDuration", False))


def _convex(value: Json) -> ConvexRule:
    """Parse the convex rule; in protobuf a 0 and an empty name mean an absent field."""
    return ConvexRule(
        step_count_max=_int_or_none(value.get("maxStepCount")) or None,
        step_count_min=_int_or_none(value.get("minStepCount")),
        measurement_count_min=_int_or_none(value.get("minMeasurementCount")),
        learning_rate_parameter=value.get("learningRateParameterName") or None,
        by_time=value.get("useElapsedDuration", False),
        update_all_stopped_trials=value.get("updateAllStoppedTrials", False),
    )


def _int_or_none(value: str | None) -> int | None:
    return None if value is None else int(value)


#: The fields for rules of early stopping, and the function that parses each.
STOPPING: Final[Mapping[str, Callable[[Json], StoppingRule]]] = {
    "decayCurveStoppingSpec": _decay_curve,
    "medianAutomatedStoppingSpec": _median,
    "convexAutomatedStoppingSpec": _convex,
}

#: The measurement that is the result of a trial; the default is the last measurement.
SELECTION: Final[Mapping[str, Selection]] = {
    "MEASUREMENT_SELECTION_TYPE_UNSPECIFIED": Selection.LAST,
    "LAST_MEASUREMENT": Selection.LAST,
    "BEST_MEASUREMENT": Selection.BEST,
}
NOISE: Final[Mapping[str, Noise]] = {
    "OBSERVATION_NOISE_UNSPECIFIED": Noise.DEFAULT,
    "LOW": Noise.LOW,
    "HIGH": Noise.HIGH,
}


def study_of(job: Json) -> StudySpec:
    """Parse the study of a tuning job.

    The defaults of counts are those that gcloud sends (docs/sources/gcloud.md 6.1).
    """
    study = job.get("studySpec", {})
    selection = study.get("measurementSelectionType", "MEASUREMENT_SELECTION_TYPE_UNSPECIFIED")
    return StudySpec(
        metrics=tuple(map(_metric, study.get("metrics", ()))),
        parameters=tuple(map(parameter_of, study.get("parameters", ()))),
        algorithm=ALGORITHM[study.get("algorithm", "ALGORITHM_UNSPECIFIED")],
        trial_count_max=job.get("maxTrialCount", 1),
        trial_count_parallel=job.get("parallelTrialCount", 1),
        trial_count_failed_max=job.get("maxFailedTrialCount", 0),
        selection=SELECTION[selection],
        noise=NOISE[study.get("observationNoise", "OBSERVATION_NOISE_UNSPECIFIED")],
        stopping=stopping_of(study),
        ending=ending_of(study.get("studyStoppingConfig", {})),
    )


def missing_values(job: Json) -> Iterator[Violation]:
    """Yield violations of parameters without values, conditional ones included."""
    for index, parameter in enumerate(job.get("studySpec", {}).get("parameters", ())):
        yield from _missing_values(parameter, f"studySpec.parameters[{index}]")


def _missing_values(parameter: Json, path: str) -> Iterator[Violation]:
    if not any(name in parameter for name in VALUES):
        yield _without_values(path)
    for index, conditional in enumerate(parameter.get("conditionalParameterSpecs", ())):
        inner = f"{path}.conditionalParameterSpecs[{index}].parameterSpec"
        yield from _missing_values(conditional.get("parameterSpec", {}), inner)


def _without_values(at: str) -> Violation:
    accepted = f"exactly one of {', '.join(VALUES)}"
    message = "a parameter must have values"
    return Violation(field=at, rule="exactly-one-of", message=message, accepted=accepted)


def _metric(value: Json) -> Metric:
    goal = GOAL[value.get("goal", "GOAL_TYPE_UNSPECIFIED")]
    limit = value.get("safetyConfig")
    return Metric(
        metric_id=value.get("metricId", ""),
        goal=goal,
        safety=None if limit is None else _safety(limit),
    )


def _safety(value: Json) -> Safety:
    return Safety(
        threshold=float(value.get("safetyThreshold", 0)),
        fraction_min=float(value.get("desiredMinSafeTrialsFraction", 0)),
    )
