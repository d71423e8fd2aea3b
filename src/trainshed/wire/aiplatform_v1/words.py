"""What a Vertex job document calls the model's fields: total, so that no refusal lacks words."""

from collections.abc import Mapping
from typing import Final

from trainshed.model.faults import Field, FieldPath
from trainshed.model.job import JobSpec, ProgramKind
from trainshed.model.roles import POOL_OF_ROLE, Role
from trainshed.wire.aiplatform_v1 import study_places

#: Fields that stand beside the CustomJobSpec, or in the URL.
OUTSIDE: Final[Mapping[Field, str]] = {
    Field.DISPLAY_NAME: "displayName",
    Field.JOB_ID: "name",
    Field.LABELS: "labels",
    Field.REGION: "region",
    Field.STUDY: "studySpec",
}

#: Fields of the CustomJobSpec.  There are no tiers and no priority here.
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

#: Fields of a pool's program, of both kinds.  The image is what says the versions here.
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
    """The dotted name of a field, such as ``jobSpec.workerPoolSpecs[1].machineSpec.machineType``.

    ``prefix`` is where the document holds its CustomJobSpec: ``jobSpec.``, or nothing.
    """
    if path.place and spec.study:
        return study_places.words_of(path.place, spec.study)
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
    """The kind of a group's program; a group that has none is told about containers."""
    group = spec.group(role)
    return group.program.kind if group and group.program else ProgramKind.CONTAINER
