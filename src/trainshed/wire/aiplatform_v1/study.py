"""A HyperparameterTuningJob's study to the model's (R19; contracts/vertex-sdk.md 8)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainshed.model.faults import Violation
from trainshed.model.study import Metric, Noise, Safety, Selection, StudySpec
from trainshed.wire.aiplatform_v1.parameters import VALUES, parameter_of
from trainshed.wire.aiplatform_v1.study_rules import ending_of, stopping_of
from trainshed.wire.study_words import ALGORITHM, GOAL

Json = Mapping[str, Any]

#: Which measurement of a trial counts; none said is the last one.
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
    """The study of a tuning job; counts that are not given are as gcloud sends them (6.1)."""
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
