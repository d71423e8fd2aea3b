"""Maps all fields of the model to their names in Job documents, for refusals.

In this dialect a study has one metric and no conditions, and ends with its last trial.  Fields that
the dialect lacks have the name of the whole HyperparameterSpec.  Also has the names of fields in
filters of ``jobs.list`` (``jobId:census* AND state:FAILED``).
"""

from collections.abc import Mapping
from typing import Final

from trainshed.model.faults import Field, FieldPath
from trainshed.model.filters import Filter
from trainshed.model.job import JobSpec
from trainshed.model.roles import Role
from trainshed.model.study import ParameterKind, StudySpec
from trainshed.model.study_places import StudyField, StudyPlace, parameter_at
from trainshed.wire.list_filter import MATCHING, ORDERED, FilterWords, read_filter
from trainshed.wire.status import STATE, states_of

HYPERPARAMETERS: Final = "trainingInput.hyperparameters"

#: Fields of the whole study.
OF_STUDY: Final[Mapping[StudyField, str]] = {
    StudyField.ALGORITHM: ".algorithm",
    StudyField.TRIALS_MAX: ".maxTrials",
    StudyField.TRIALS_PARALLEL: ".maxParallelTrials",
    StudyField.TRIALS_FAILED: ".maxFailedTrials",
    StudyField.METRICS: ".hyperparameterMetricTag",
    StudyField.METRIC_ID: ".hyperparameterMetricTag",
    StudyField.STOPPING: ".enableTrialEarlyStopping",
    StudyField.PARAMETERS: ".params",
}

#: Fields of one parameter.
OF_PARAMETER: Final[Mapping[StudyField, str]] = {
    StudyField.PARAMETER_ID: ".parameterName",
    StudyField.KIND: ".type",
    StudyField.LEAST: ".minValue",
    StudyField.MOST: ".maxValue",
    StudyField.SCALE: ".scaleType",
}
VALUES_OF_KIND: Final[Mapping[ParameterKind, str]] = {
    ParameterKind.CATEGORICAL: ".categoricalValues",
    ParameterKind.DISCRETE: ".discreteValues",
}


def study_words_of(place: StudyPlace, study: StudySpec) -> str:
    """Return a field's dotted name, as ``trainingInput.hyperparameters.params[0].minValue``."""
    field = place.field
    if field is StudyField.VALUES:
        return f"{HYPERPARAMETERS}.params[{place.at[0]}]{_study_values(place, study)}"
    if field in OF_PARAMETER:
        return f"{HYPERPARAMETERS}.params[{place.at[0]}]{OF_PARAMETER[field]}"
    return HYPERPARAMETERS + OF_STUDY.get(field, "")


def _study_values(place: StudyPlace, study: StudySpec) -> str:
    parameter = parameter_at(study.parameters, place.at)
    return VALUES_OF_KIND.get(parameter.kind, "") if parameter else ""


#: Fields of the whole job.  ``GROUPS`` and ``ENV`` have no separate field.
OF_JOB: Final[Mapping[Field, str]] = {
    Field.JOB: "trainingInput",
    Field.DISPLAY_NAME: "jobId",
    Field.JOB_ID: "jobId",
    Field.LABELS: "labels",
    Field.REGION: "trainingInput.region",
    Field.SCALE_TIER: "trainingInput.scaleTier",
    Field.JOB_DIR: "trainingInput.jobDir",
    Field.STRATEGY: "trainingInput.scheduling.strategy",
    Field.PRIORITY: "trainingInput.scheduling.priority",
    Field.RUNNING_MAX: "trainingInput.scheduling.maxRunningTime",
    Field.WAITING_MAX: "trainingInput.scheduling.maxWaitTime",
    Field.STUDY: "trainingInput.hyperparameters",
    Field.GROUPS: "trainingInput",
    Field.RUNTIME_VERSION: "trainingInput.runtimeVersion",
    Field.PYTHON_VERSION: "trainingInput.pythonVersion",
    Field.PACKAGE_URIS: "trainingInput.packageUris",
    Field.MODULE: "trainingInput.pythonModule",
    Field.ENV: "trainingInput",
}

#: Fields of one group, after the name of its family.
OF_GROUP: Final[Mapping[Field, str]] = {
    Field.GROUP: "Type",
    Field.COUNT: "Count",
    Field.MACHINE_TYPE: "Type",
    Field.ACCELERATOR: "Config.acceleratorConfig",
    Field.ACCELERATOR_TYPE: "Config.acceleratorConfig.type",
    Field.ACCELERATOR_COUNT: "Config.acceleratorConfig.count",
    Field.TPU_TOPOLOGY: "Config.acceleratorConfig",
    Field.DISK_TYPE: "Config.diskConfig.bootDiskType",
    Field.DISK_SIZE: "Config.diskConfig.bootDiskSizeGb",
    Field.IMAGE_URI: "Config.imageUri",
    Field.COMMAND: "Config.containerCommand",
}

#: The family of each role; this dialect has no reducers and names them parameterServer.
FAMILY: Final[Mapping[Role, str]] = {
    Role.PRIMARY: "master",
    Role.WORKER: "worker",
    Role.PARAMETER_SERVER: "parameterServer",
    Role.REDUCER: "parameterServer",
    Role.EVALUATOR: "evaluator",
}


def caller_words(path: FieldPath, *, spec: JobSpec) -> str:
    """Return a field's dotted name, as ``trainingInput.workerConfig.acceleratorConfig.count``.

    The count of the master is ``masterType``, because the dialect has no ``masterCount``.
    """
    role = path.role or Role.PRIMARY
    if path.place and spec.study:
        return study_words_of(path.place, spec.study)
    if path.field is Field.ARGS:
        return _args(role, spec)
    if path.field in OF_JOB:
        return OF_JOB[path.field]
    word = OF_GROUP[path.field]
    if path.field is Field.COUNT and role is Role.PRIMARY:
        word = "Type"
    return f"trainingInput.{FAMILY[role]}{word}"


def _args(role: Role, spec: JobSpec) -> str:
    """Return the container's arguments if it has its own command, else the arguments of the job."""
    group = spec.group(role)
    has_own = group is not None and group.program is not None and bool(group.program.command)
    return f"trainingInput.{FAMILY[role]}Config.containerArgs" if has_own else "trainingInput.args"


FILTERS: Final = FilterWords(
    operators={"job_id": MATCHING, "state": MATCHING, "create_time": ORDERED, "labels": MATCHING},
    states={**states_of(STATE), "STATE_UNSPECIFIED": None},
)


def jobs_filter(text: str) -> Filter:
    """Parse a filter of ``jobs.list``.  Raises Refusal (INVALID_ARGUMENT)."""
    return read_filter(text, FILTERS)
