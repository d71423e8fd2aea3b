"""The cluster of a TrainingInput: four families of fields become replica groups (R11)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainshed.model.faults import Violation
from trainshed.model.job import Accelerator, Disk, Program, ProgramKind, ReplicaGroup, ScaleTier
from trainshed.model.roles import Role
from trainshed.wire.ml_v1.words import FAMILY
from trainshed.wire.spelling import as_written

#: The roles of this dialect; it has no reducers.
ROLES: Final = (Role.PRIMARY, Role.WORKER, Role.PARAMETER_SERVER, Role.EVALUATOR)

#: Tiers that bring no master of their own: an absent one is BASIC, CUSTOM needs masterType.
_MASTER_IS_ASKED_FOR: Final = (None, ScaleTier.CUSTOM.value)

Json = Mapping[str, Any]


def groups_of(
    training: Json, unread_counts: frozenset[str] = frozenset()
) -> tuple[ReplicaGroup, ...]:
    """The groups that the caller spoke of.

    A group exists if its type, its configuration or a count was given; the master also if there is
    a program, or nobody else would bring one.  A given type with no count is a count of 0, as the
    service counts (vertex-sdk.md 7.1), and is kept for the rules to see.  ``unread_counts`` are the
    families whose count was given and cannot be read: one replica stands for them, so that what
    else is wrong with them is told too.
    """
    return tuple(_groups(training, unread_counts))


def _groups(training: Json, unread_counts: frozenset[str]) -> Iterator[ReplicaGroup]:
    for role in ROLES:
        family = FAMILY[role]
        config = training.get(f"{family}Config", {})
        machine_type = training.get(f"{family}Type")
        program = _program(training, config)
        is_one = role is Role.PRIMARY or family in unread_counts
        count = 1 if is_one else int(training.get(f"{family}Count", 0))
        is_wanted = _has_master(training, program) if role is Role.PRIMARY else count
        if machine_type or config or is_wanted:
            yield ReplicaGroup(
                role=role,
                count=count,
                machine_type=machine_type,
                accelerator=_accelerator(config.get("acceleratorConfig")),
                disk=_disk(config.get("diskConfig")),
                program=program,
            )


def _has_master(training: Json, program: Program | None) -> bool:
    return bool(program) or training.get("scaleTier") in _MASTER_IS_ASKED_FOR


def _accelerator(value: Json | None) -> Accelerator | None:
    if not value:
        return None
    count = int(value["count"]) if "count" in value else None
    return Accelerator(type=value.get("type"), count=count)


def _disk(value: Json | None) -> Disk | None:
    if not value:
        return None
    return Disk(type=value.get("bootDiskType"), size_gb=value.get("bootDiskSizeGb"))


def _program(training: Json, config: Json) -> Program | None:
    """A group's program; None when the document names none at all.

    The image defaults to the master's; commands and arguments of a container do not.  The job's
    own arguments go to every replica whose container gives none (vertex-sdk.md 7.1).
    """
    image = config.get("imageUri") or training.get("masterConfig", {}).get("imageUri")
    program = Program(
        kind=ProgramKind.CONTAINER if image else ProgramKind.PYTHON_PACKAGE,
        image_uri=image,
        runtime_version=training.get("runtimeVersion"),
        python_version=training.get("pythonVersion"),
        package_uris=tuple(training.get("packageUris", ())),
        module=training.get("pythonModule"),
        command=tuple(config.get("containerCommand", ())),
        args=tuple(config.get("containerArgs") or training.get("args", ())),
    )
    return None if program == Program(kind=ProgramKind.PYTHON_PACKAGE) else program


#: The fields that say how a container starts.
STARTING: Final = ("containerCommand", "containerArgs")


def misfits(training: Json, document: Json) -> Iterator[Violation]:
    """The containers that are given args twice, or say how to start an image that is not named."""
    has_master_image = bool(training.get("masterConfig", {}).get("imageUri"))
    for family in dict.fromkeys(FAMILY.values()):
        config = training.get(f"{family}Config", {})
        given = [name for name in STARTING if config.get(name)]
        if not given:
            continue
        path = as_written(document, f"trainingInput.{family}Config.{given[0]}")
        if training.get("args"):
            yield _conflict(path, given)
        if not (has_master_image or config.get("imageUri")):
            yield _without_image(path, given)


def _conflict(path: str, given: list[str]) -> Violation:
    message = f"args and {' and '.join(given)} exclude each other"
    accepted = "args for the whole job, or containerCommand and containerArgs"
    return Violation(field=path, rule="args-conflict", message=message, accepted=accepted)


def _without_image(path: str, given: list[str]) -> Violation:
    message = f"{' and '.join(given)} without an image to start"
    accepted = "an imageUri in the same object, or in masterConfig"
    return Violation(field=path, rule="command-without-image", message=message, accepted=accepted)
