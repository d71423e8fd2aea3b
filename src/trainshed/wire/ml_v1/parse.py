"""Parses Job documents of ``ml/v1``, and patches of them.

The fields of master, worker, parameterServer and evaluator become the replica groups.
Sources: docs/sources/gcloud.md 3, docs/sources/vertex.md 7.1.
"""

import base64
import binascii
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Final

from trainshed.admission.rules.job import label_violations
from trainshed.catalog.software import prebuilt_image
from trainshed.model.faults import Fault, Violation
from trainshed.model.job import (
    Accelerator,
    Disk,
    JobSpec,
    Program,
    ProgramKind,
    ReplicaGroup,
    ScaleTier,
    Scheduling,
)
from trainshed.model.refusals import Code, Refusal
from trainshed.model.roles import Dialect, Role
from trainshed.model.study import StudySpec
from trainshed.wire.fields import table
from trainshed.wire.jsonmap import describe_value, read
from trainshed.wire.ml_v1.study import misplaced, missing_types, study_of
from trainshed.wire.ml_v1.words import FAMILY, HYPERPARAMETERS, caller_words
from trainshed.wire.parsed import Parsed, as_written, compact, in_own_spelling, snake, without
from trainshed.wire.times import seconds

#: The roles of this dialect; it has no reducers.
ROLES: Final = (Role.PRIMARY, Role.WORKER, Role.PARAMETER_SERVER, Role.EVALUATOR)

#: Tiers with which a job has a master group without master fields: BASIC by default, and CUSTOM.
_TIERS_WITH_MASTER: Final = (None, ScaleTier.CUSTOM.value)

Json = Mapping[str, Any]


def groups_of(
    training: Json, unread_counts: frozenset[str] = frozenset()
) -> tuple[ReplicaGroup, ...]:
    """Return the groups of the document.

    A group exists if the document has its type, its configuration or a count; the master group also
    exists with a program, and in the tiers BASIC and CUSTOM.  A type without a count has the count
    0, as at Google (docs/sources/vertex.md 7.1), and admission refuses the group.
    ``unread_counts`` are the families with an invalid count: they get one replica, so that their
    other violations are reported too.
    """
    return tuple(_groups(training, unread_counts))


def _groups(training: Json, unread_counts: frozenset[str]) -> Iterator[ReplicaGroup]:
    """Yield the groups of all roles that the document has."""
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
    return bool(program) or training.get("scaleTier") in _TIERS_WITH_MASTER


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
    """Return a group's program; None if the document names no program.

    The default image is the master's (docs/sources/vertex.md 7.1); commands and arguments of a
    container have no such default.  Replicas whose container has no arguments get the job's.
    """
    image = config.get("imageUri") or training.get("masterConfig", {}).get("imageUri")
    program = Program(
        kind=_kind(image, training, config),
        image_uri=image,
        runtime_version=training.get("runtimeVersion"),
        python_version=training.get("pythonVersion"),
        package_uris=tuple(training.get("packageUris", ())),
        module=training.get("pythonModule"),
        command=tuple(config.get("containerCommand", ())),
        args=tuple(config.get("containerArgs") or training.get("args", ())),
    )
    return None if program == Program(kind=ProgramKind.PYTHON_PACKAGE) else program


def _kind(image: str | None, training: Json, config: Json) -> ProgramKind:
    """Return the kind: a module in a prebuilt image or runtime version, else a container."""
    has_module = training.get("pythonModule") and not config.get("containerCommand")
    if not image or (has_module and prebuilt_image(image)):
        return ProgramKind.PYTHON_PACKAGE
    return ProgramKind.CONTAINER


#: The fields with the command and the arguments of a container.
STARTING: Final = ("containerCommand", "containerArgs")


def check_containers(training: Json, document: Json) -> Iterator[Violation]:
    """Yield violations of containers with both kinds of args, or a command without an image."""
    has_master_image = bool(training.get("masterConfig", {}).get("imageUri"))
    for family in dict.fromkeys(FAMILY.values()):
        config = training.get(f"{family}Config", {})
        names = [name for name in STARTING if config.get(name)]
        if not names:
            continue
        path = as_written(document, f"trainingInput.{family}Config.{names[0]}")
        if training.get("args"):
            yield _conflict(path, names)
        if not (has_master_image or config.get("imageUri")):
            yield _without_image(path, names)


def _conflict(path: str, names: list[str]) -> Violation:
    message = f"args and {' and '.join(names)} exclude each other"
    accepted = "args for the whole job, or containerCommand and containerArgs"
    return Violation(field=path, rule="args-conflict", message=message, accepted=accepted)


def _without_image(path: str, names: list[str]) -> Violation:
    message = f"{' and '.join(names)} need an image"
    accepted = "an imageUri in the same object, or in masterConfig"
    return Violation(field=path, rule="command-without-image", message=message, accepted=accepted)


SCALE_TIER: Final = "trainingInput.scaleTier"

#: Fields of other kinds of jobs; other violations of such jobs are not reported.
OTHER_JOBS: Final = frozenset({"prediction_input", "explanation_input"})


def job(document: Mapping[str, Any]) -> Parsed:
    """Parse a Job, the content of ``config.yaml`` and the body of ``jobs.create``."""
    reading = read(table("ml_v1"), "Job", document)
    other = tuple(v for v in reading.violations if snake(str(v.field)) in OTHER_JOBS)
    if other and "trainingInput" not in reading.value:
        return Parsed(spec=None, violations=other, words=str, notes=reading.notes)
    training = reading.value.get("trainingInput", {})
    type_violations = missing_types(training.get("hyperparameters"), document)
    violations = (*reading.violations, *without(type_violations, reading.violations))
    spec = _spec(
        reading.value,
        _study(training, document, violations),
        _unread_counts(document, {v.field for v in violations}),
    )
    if _is_tier_unread(document, violations):
        spec = replace(spec, scale_tier=spec.scale_tier or _likely_tier(spec))
    words = in_own_spelling(partial(caller_words, spec=spec), document)
    misplaced_violations = misplaced(training.get("hyperparameters"), document)
    further_violations = without(
        chain(check_containers(training, document), misplaced_violations), violations
    )
    return Parsed(
        spec=spec, violations=(*violations, *further_violations), words=words, notes=reading.notes
    )


def _study(
    training: dict[str, Any], document: Mapping[str, Any], violations: Iterable[Violation]
) -> StudySpec | None:
    study = study_of(training.get("hyperparameters"))
    path = as_written(document, HYPERPARAMETERS)
    is_whole = not any(str(violation.field).startswith(path) for violation in violations)
    return replace(study, is_whole=is_whole) if study else None


def _is_tier_unread(document: Mapping[str, Any], violations: Iterable[Violation]) -> bool:
    """Whether the scale tier has an invalid value."""
    path = as_written(document, SCALE_TIER)
    return any(violation.field == path for violation in violations)


def _likely_tier(spec: JobSpec) -> ScaleTier | None:
    """Guess the intended tier instead of an invalid one: CUSTOM if groups have machine types.

    With another tier admission would also refuse each machine type.
    """
    return ScaleTier.CUSTOM if any(group.machine_type for group in spec.groups) else None


def _unread_counts(document: Mapping[str, Any], faulty: Container[object]) -> frozenset[str]:
    paths = {family: f"trainingInput.{family}Count" for family in FAMILY.values()}
    return frozenset(f for f, path in paths.items() if as_written(document, path) in faulty)


def _spec(value: dict[str, Any], study: StudySpec | None, unread_counts: frozenset[str]) -> JobSpec:
    training = value.get("trainingInput", {})
    return JobSpec(
        dialect=Dialect.ML_V1,
        job_id=value.get("jobId", ""),
        region=training.get("region"),
        scale_tier=ScaleTier(training["scaleTier"]) if "scaleTier" in training else None,
        groups=groups_of(training, unread_counts),
        job_dir=training.get("jobDir"),
        use_chief_in_tf_config=training.get("useChiefInTfConfig"),
        scheduling=_scheduling(training.get("scheduling", {})),
        labels=value.get("labels", {}),
        study=study,
        request=compact(value),
    )


def _scheduling(value: dict[str, Any]) -> Scheduling:
    return Scheduling(
        running_s_max=seconds(value.get("maxRunningTime")),
        waiting_s_max=seconds(value.get("maxWaitTime")),
        priority=value.get("priority"),
        strategy=value.get("strategy"),
        restart_job_on_worker_restart=value.get("resilientToWorkerRestart", False),
    )


#: The fields of a Job that a patch may change (docs/sources/vertex.md 7).
CHANGEABLE: Final = ("labels", "etag")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A patch: ``labels`` replace all labels, None keeps them; ``etag`` must match, None any."""

    labels: Mapping[str, str] | None = None
    etag: bytes | None = None


def patch_of(document: Any, update_mask: str) -> Patch:
    """Parse a patch.  Without a mask it changes all fields of the document.

    Raises Refusal (INVALID_ARGUMENT) for a field that cannot be changed, Fault for invalid values.
    """
    if not isinstance(document, Mapping):
        message = f"the body must be a JSON object, not {describe_value(document)}"
        raise Refusal(Code.INVALID_ARGUMENT, message)
    paths = [path.strip() for path in update_mask.split(",") if path.strip()] or list(document)
    if fixed := [str(path) for path in paths if path not in CHANGEABLE]:
        raise Refusal(
            Code.INVALID_ARGUMENT,
            f"{', '.join(fixed)} cannot be changed; update_mask may name labels and etag only",
        )
    return Patch(
        labels=_labels(document.get("labels")) if "labels" in paths else None,
        etag=_etag(document.get("etag")),
    )


def _labels(value: Any) -> Mapping[str, str]:
    """Parse new labels.  Raises Fault."""
    labels = {} if value is None else value
    if not isinstance(labels, Mapping):
        raise Fault((_wrong("labels", "labels must be an object of texts", value),))
    violations = list(_label_type_violations(labels)) or list(
        label_violations(Dialect.ML_V1, labels, "labels")
    )
    if violations:
        raise Fault(tuple(violations))
    return labels


def _label_type_violations(labels: Mapping[str, Any]) -> Iterator[Violation]:
    for key, value in labels.items():
        if not isinstance(value, str):
            yield _wrong(f"labels.{key}", "a label must be a text", value)


def _etag(value: Any) -> bytes | None:
    if value is None or value == "":
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise Fault(
            (
                _wrong(
                    "etag",
                    "etag must be a base64 text, copied from the Job that the server returned",
                    value,
                ),
            )
        ) from None


def _wrong(field: str, message: str, value: Any) -> Violation:
    return Violation(
        field=field, rule="wrong-type", message=f"{message}, not {describe_value(value)}"
    )
