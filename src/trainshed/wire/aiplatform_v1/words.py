"""Maps all fields of the model to their names in Vertex job documents, for refusals.

Also has the names of fields in list filters (docs/sources/vertex.md 8, end).
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from trainshed.model.faults import Field, FieldPath
from trainshed.model.job import JobSpec, ProgramKind
from trainshed.model.roles import POOL_OF_ROLE, Role
from trainshed.model.status import JobState
from trainshed.model.study import ConvexRule, DecayCurveRule, MedianRule, ParameterKind, StudySpec
from trainshed.model.study_places import StudyField, StudyPlace, parameter_at
from trainshed.wire.list_filter import MATCHING, ORDERED, FilterWords, read_filter
from trainshed.wire.status import STATE as ML_STATE
from trainshed.wire.status import states_of

#: Fields of the whole study; the counts of trials are outside of the StudySpec.
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

#: Fields of the rule that stops trials early, and the name of each rule's field.
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


def study_words_of(place: StudyPlace, study: StudySpec) -> str:
    """Return a field's dotted name, as ``studySpec.parameters[1].doubleValueSpec.minValue``."""
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
    """Return the field in the message of the parameter's kind; empty without a parameter."""
    parameter = parameter_at(study.parameters, place.at)
    return VALUES_OF_KIND[parameter.kind] + OF_VALUES[place.field] if parameter else ""


#: Fields outside of the CustomJobSpec, or in the URL.
OUTSIDE: Final[Mapping[Field, str]] = {
    Field.DISPLAY_NAME: "displayName",
    Field.JOB_ID: "name",
    Field.LABELS: "labels",
    Field.REGION: "region",
    Field.STUDY: "studySpec",
}

#: Fields of the CustomJobSpec.  This dialect has no tiers and no priority.
OF_SPEC: Final[Mapping[Field, str]] = {
    Field.JOB: "workerPoolSpecs",
    Field.SCALE_TIER: "workerPoolSpecs",
    Field.GROUPS: "workerPoolSpecs",
    Field.JOB_DIR: "baseOutputDirectory.outputUriPrefix",
    Field.STRATEGY: "scheduling.strategy",
    Field.PRIORITY: "scheduling",
    Field.RUNNING_MAX: "scheduling.timeout",
    Field.WAITING_MAX: "scheduling.maxWaitDuration",
}

#: Fields of one worker pool.
OF_POOL: Final[Mapping[Field, str]] = {
    Field.GROUP: "",
    Field.COUNT: ".replicaCount",
    Field.MACHINE_TYPE: ".machineSpec.machineType",
    Field.ACCELERATOR: ".machineSpec",
    Field.ACCELERATOR_TYPE: ".machineSpec.acceleratorType",
    Field.ACCELERATOR_COUNT: ".machineSpec.acceleratorCount",
    Field.TPU_TOPOLOGY: ".machineSpec.tpuTopology",
    Field.DISK_TYPE: ".diskSpec.bootDiskType",
    Field.DISK_SIZE: ".diskSpec.bootDiskSizeGb",
}

#: Fields of a pool's program, for both kinds.  In this dialect the image decides the versions.
OF_PROGRAM: Final[Mapping[ProgramKind, Mapping[Field, str]]] = {
    ProgramKind.CONTAINER: {
        Field.IMAGE_URI: ".containerSpec.imageUri",
        Field.RUNTIME_VERSION: ".containerSpec.imageUri",
        Field.PYTHON_VERSION: ".containerSpec.imageUri",
        Field.PACKAGE_URIS: ".pythonPackageSpec.packageUris",
        Field.MODULE: ".pythonPackageSpec.pythonModule",
        Field.COMMAND: ".containerSpec.command",
        Field.ARGS: ".containerSpec.args",
        Field.ENV: ".containerSpec.env",
    },
    ProgramKind.PYTHON_PACKAGE: {
        Field.IMAGE_URI: ".pythonPackageSpec.executorImageUri",
        Field.RUNTIME_VERSION: ".pythonPackageSpec.executorImageUri",
        Field.PYTHON_VERSION: ".pythonPackageSpec.executorImageUri",
        Field.PACKAGE_URIS: ".pythonPackageSpec.packageUris",
        Field.MODULE: ".pythonPackageSpec.pythonModule",
        Field.COMMAND: ".pythonPackageSpec.pythonModule",
        Field.ARGS: ".pythonPackageSpec.args",
        Field.ENV: ".pythonPackageSpec.env",
    },
}


def caller_words(path: FieldPath, *, spec: JobSpec, prefix: str) -> str:
    """Return the dotted name of a field, such as ``jobSpec.workerPoolSpecs[1].replicaCount``.

    ``prefix`` is the path of the CustomJobSpec in the document: ``jobSpec.``, or empty.
    """
    if path.place and spec.study:
        return study_words_of(path.place, spec.study)
    if path.field in OUTSIDE:
        return OUTSIDE[path.field]
    if path.field in OF_SPEC:
        return prefix + OF_SPEC[path.field]
    role = path.role or Role.PRIMARY
    word = OF_POOL.get(path.field)
    if word is None:
        word = OF_PROGRAM[_kind(spec, role)][path.field]
    return f"{prefix}workerPoolSpecs[{POOL_OF_ROLE[role]}]{word}"


def _kind(spec: JobSpec, role: Role) -> ProgramKind:
    """Return the kind of a group's program; CONTAINER for a group without a program."""
    group = spec.group(role)
    return group.program.kind if group and group.program else ProgramKind.CONTAINER


#: The dialect's name of each state, without its prefix (``JOB_STATE_``).
STATE: Final[Mapping[JobState, str]] = {**ML_STATE, JobState.PREPARING: "PENDING"}

#: States of the dialect that no job of this server has; pipelines have only the first two.
NEVER: Final = ("UNSPECIFIED", "PAUSED", "EXPIRED", "UPDATING", "PARTIALLY_SUCCEEDED")
NEVER_OF_PIPELINES: Final = NEVER[:2]

_FIELDS: Final = {
    "display_name": MATCHING,
    "state": MATCHING,
    "create_time": ORDERED,
    "labels": MATCHING,
}


def _states(prefix: str, never: tuple[str, ...]) -> Mapping[str, JobState | None]:
    states = {f"{prefix}_{word}": state for word, state in states_of(STATE).items()}
    return {**states, **{f"{prefix}_{word}": None for word in never}}


JOBS_FILTERS: Final = FilterWords(operators=_FIELDS, states=_states("JOB_STATE", NEVER))
PIPELINES_FILTERS: Final = FilterWords(
    operators={**_FIELDS, "training_task_definition": MATCHING},
    states=_states("PIPELINE_STATE", NEVER_OF_PIPELINES),
)
#: The field ``model`` is the id of the model.
MODELS_FILTERS: Final = FilterWords(
    operators={
        "display_name": MATCHING,
        "model": MATCHING,
        "create_time": ORDERED,
        "labels": MATCHING,
    },
    states={},
)


#: Functions that parse a filter of custom or tuning jobs, of training pipelines, and of models.
jobs_filter: Final = partial(read_filter, words=JOBS_FILTERS)
pipelines_filter: Final = partial(read_filter, words=PIPELINES_FILTERS)
models_filter: Final = partial(read_filter, words=MODELS_FILTERS)
