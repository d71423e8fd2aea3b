"""What a HyperparameterTuningJob calls the places of a study: total, as all words are."""

from collections.abc import Mapping
from typing import Final

from trainshed.model.study import ConvexRule, DecayCurveRule, MedianRule, ParameterKind, StudySpec
from trainshed.model.study_places import StudyField, StudyPlace, parameter_at

#: Fields of the whole study; the counts of trials stand beside the StudySpec.
OF_STUDY: Final[Mapping[StudyField, str]] = {
    StudyField.STUDY: "studySpec",
    StudyField.ALGORITHM: "studySpec.algorithm",
    StudyField.TRIALS_MAX: "maxTrialCount",
    StudyField.TRIALS_PARALLEL: "parallelTrialCount",
    StudyField.TRIALS_FAILED: "maxFailedTrialCount",
    StudyField.METRICS: "studySpec.metrics",
    StudyField.PARAMETERS: "studySpec.parameters",
    StudyField.RUNTIME_MIN: "studySpec.studyStoppingConfig.minimumRuntimeConstraint",
    StudyField.RUNTIME_MAX: "studySpec.studyStoppingConfig.maximumRuntimeConstraint",
    StudyField.ENDING_TRIALS_MIN: "studySpec.studyStoppingConfig.minNumTrials",
    StudyField.ENDING_TRIALS_MAX: "studySpec.studyStoppingConfig.maxNumTrials",
    StudyField.TRIALS_WITHOUT_PROGRESS: "studySpec.studyStoppingConfig.maxNumTrialsNoProgress",
    StudyField.TIME_WITHOUT_PROGRESS: "studySpec.studyStoppingConfig.maxDurationNoProgress",
}

#: Fields of one metric.
OF_METRIC: Final[Mapping[StudyField, str]] = {
    StudyField.METRIC_ID: ".metricId",
    StudyField.SAFETY: ".safetyConfig",
    StudyField.SAFETY_THRESHOLD: ".safetyConfig.safetyThreshold",
    StudyField.SAFETY_FRACTION: ".safetyConfig.desiredMinSafeTrialsFraction",
}

#: Fields of one parameter, of any kind.
OF_PARAMETER: Final[Mapping[StudyField, str]] = {
    StudyField.PARAMETER_ID: ".parameterId",
    StudyField.SCALE: ".scaleType",
}

#: Fields of a parameter's values, whose message is named after its kind.
OF_VALUES: Final[Mapping[StudyField, str]] = {
    StudyField.KIND: "",
    StudyField.LEAST: ".minValue",
    StudyField.MOST: ".maxValue",
    StudyField.VALUES: ".values",
    StudyField.DEFAULT: ".defaultValue",
}
VALUES_OF_KIND: Final[Mapping[ParameterKind, str]] = {
    ParameterKind.DOUBLE: ".doubleValueSpec",
    ParameterKind.INTEGER: ".integerValueSpec",
    ParameterKind.CATEGORICAL: ".categoricalValueSpec",
    ParameterKind.DISCRETE: ".discreteValueSpec",
}

#: Fields of the rule by which trials are stopped early, and the message of each rule.
OF_STOPPING: Final[Mapping[StudyField, str]] = {
    StudyField.STOPPING: "",
    StudyField.STEPS_MAX: ".maxStepCount",
    StudyField.STEPS_MIN: ".minStepCount",
    StudyField.MEASUREMENTS_MIN: ".minMeasurementCount",
    StudyField.LEARNING_RATE: ".learningRateParameterName",
}
STOPPING: Final[Mapping[type, str]] = {
    DecayCurveRule: "decayCurveStoppingSpec",
    MedianRule: "medianAutomatedStoppingSpec",
    ConvexRule: "convexAutomatedStoppingSpec",
}


def words_of(place: StudyPlace, study: StudySpec) -> str:
    """A dotted name, such as ``studySpec.parameters[1].doubleValueSpec.minValue``."""
    field = place.field
    if field in OF_STUDY:
        return OF_STUDY[field]
    if field in OF_STOPPING:
        rule = STOPPING.get(type(study.stopping))
        return f"studySpec.{rule}{OF_STOPPING[field]}" if rule else "studySpec"
    if field in OF_METRIC:
        return f"studySpec.metrics[{place.at[0]}]{OF_METRIC[field]}"
    if field is StudyField.CONDITION:
        return _parameter(place.at).removesuffix(".parameterSpec")
    if field in OF_PARAMETER:
        return _parameter(place.at) + OF_PARAMETER[field]
    return _parameter(place.at) + _values(place, study)


def _parameter(at: tuple[int, ...]) -> str:
    deeper = (f".conditionalParameterSpecs[{index}].parameterSpec" for index in at[1:])
    return f"studySpec.parameters[{at[0]}]{''.join(deeper)}"


def _values(place: StudyPlace, study: StudySpec) -> str:
    """The field in the message of the parameter's kind; nothing where the position has none."""
    parameter = parameter_at(study.parameters, place.at)
    return VALUES_OF_KIND[parameter.kind] + OF_VALUES[place.field] if parameter else ""
