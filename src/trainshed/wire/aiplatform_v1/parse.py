"""Parses the job documents of ``aiplatform/v1``.

Each document has a CustomJobSpec, which becomes the ``request`` of the JobSpec: programs read it in
CLUSTER_SPEC.  The server stores the rest of the document in ``envelope`` and returns it.  The
position of a worker pool decides its role.  Sources: docs/sources/gcloud.md 5 and 6,
docs/sources/vertex.md 4 and 8.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from trainshed.catalog.software import is_reduction_server
from trainshed.model.faults import Violation
from trainshed.model.job import (
    Accelerator,
    Disk,
    JobSpec,
    Program,
    ProgramKind,
    ReplicaGroup,
    Scheduling,
)
from trainshed.model.roles import POOL_OF_ROLE, Dialect, Role
from trainshed.wire.aiplatform_v1.models import check_names
from trainshed.wire.aiplatform_v1.study import VALUES, missing_values, study_of
from trainshed.wire.aiplatform_v1.words import caller_words
from trainshed.wire.fields import Table, table
from trainshed.wire.jsonmap import NormalForm, describe_value, read
from trainshed.wire.parsed import Parsed, as_written, compact, in_own_spelling, snake, without
from trainshed.wire.times import seconds

POOLS_MAX: Final = 1 + max(POOL_OF_ROLE.values())

#: The role of each worker pool; the third has the reducers if its image is a reduction server.
ROLE_OF_POOL: Final = (Role.PRIMARY, Role.WORKER, Role.PARAMETER_SERVER, Role.EVALUATOR)

Json = Mapping[str, Any]


def groups_of(pools: Sequence[Json]) -> tuple[ReplicaGroup, ...]:
    """Return the groups of the non-empty pools.  A pool without a count has one replica."""
    return tuple(_groups(pools))


def _groups(pools: Sequence[Json]) -> Iterator[ReplicaGroup]:
    for role, pool in zip(ROLE_OF_POOL, pools, strict=False):
        if pool:
            program, machine = program_of(pool), pool.get("machineSpec", {})
            yield ReplicaGroup(
                role=_role(role, program),
                count=int(pool.get("replicaCount", 1)),
                machine_type=machine.get("machineType"),
                accelerator=_accelerator(machine),
                tpu_topology=machine.get("tpuTopology"),
                disk=_disk(pool.get("diskSpec")),
                program=program,
            )


def _role(role: Role, program: Program | None) -> Role:
    is_container = program is not None and program.kind is ProgramKind.CONTAINER
    image = program.image_uri if program and is_container else None
    if role is Role.PARAMETER_SERVER and image and is_reduction_server(image):
        return Role.REDUCER
    return role


def _accelerator(machine: Json) -> Accelerator | None:
    kind, count = machine.get("acceleratorType"), machine.get("acceleratorCount")
    return None if kind is None and count is None else Accelerator(type=kind, count=count)


def _disk(value: Json | None) -> Disk | None:
    if not value:
        return None
    return Disk(type=value.get("bootDiskType"), size_gb=value.get("bootDiskSizeGb"))


def program_of(pool: Json) -> Program | None:
    """Return the program of a pool; None if the pool has no program."""
    if "containerSpec" in pool:
        return _container(pool["containerSpec"])
    if "pythonPackageSpec" in pool:
        return _python_package(pool["pythonPackageSpec"])
    return None


def _container(value: Json) -> Program:
    return Program(
        kind=ProgramKind.CONTAINER,
        image_uri=value.get("imageUri"),
        command=tuple(value.get("command", ())),
        args=tuple(value.get("args", ())),
        env=_env(value),
    )


def _python_package(value: Json) -> Program:
    return Program(
        kind=ProgramKind.PYTHON_PACKAGE,
        image_uri=value.get("executorImageUri"),
        package_uris=tuple(value.get("packageUris", ())),
        module=value.get("pythonModule"),
        args=tuple(value.get("args", ())),
        env=_env(value),
    )


def _env(value: Json) -> tuple[tuple[str, str], ...]:
    return tuple(
        (variable.get("name", ""), variable.get("value", "")) for variable in value.get("env", ())
    )


#: The only task of training pipelines that the server supports, in any version.
CUSTOM_TASK: Final = re.compile(r"/trainingjob/definition/custom_task_[\w.]+\.yaml$")

#: The fields of a HyperparameterTuningJob that describe its study, in snake_case.
STUDY_KEYS: Final = frozenset(
    {"study_spec", "max_trial_count", "parallel_trial_count", "max_failed_trial_count"}
)
_LOCATION: Final = re.compile(r"/locations/([^/]+)/")


def custom_job(document: Json) -> Parsed:
    """Parse a CustomJob, the body of ``customJobs.create``."""
    reading = read(_table(), "CustomJob", document)
    return _parse_job(document, reading, "jobSpec")


def custom_job_spec(document: Json) -> Parsed:
    """Parse a CustomJobSpec, the file of gcloud's ``--config``.

    It may also have the field ``region``, an extension of Trainshed: in calls the region is in the
    URL, and with the field a file can be checked without a call.
    """
    fields = {key: value for key, value in document.items() if key != "region"}
    reading = read(_table(), "CustomJobSpec", fields)
    region, violations = _region(document.get("region"))
    spec = replace(_spec(reading.value), region=region)
    words = in_own_spelling(partial(caller_words, spec=spec, prefix=""), document)
    violations = (*violations, *reading.violations, *_too_many_pools(document, reading.value, ""))
    return Parsed(spec=spec, violations=violations, words=words, notes=reading.notes)


def tuning_job(document: Json) -> Parsed:
    """Parse a HyperparameterTuningJob: the spec of one trial, with the study."""
    reading = read(_table(), "HyperparameterTuningJob", document)
    gaps = (
        replace(gap, field=as_written(document, str(gap.field)))
        for gap in missing_values(reading.value)
    )
    parsed = _parse_job(document, reading, "trialJobSpec")
    faulty = frozenset(snake(str(violation.field)) for violation in reading.violations)
    gaps = (gap for gap in gaps if not _has_faulty_values(gap, faulty))
    violations = (*parsed.violations, *without(gaps, parsed.violations))
    study = replace(study_of(reading.value), is_whole=not any(map(_is_of_study, violations)))
    spec = replace(_require_spec(parsed), study=study)
    words = in_own_spelling(partial(caller_words, spec=spec, prefix="trialJobSpec."), document)
    return Parsed(spec=spec, violations=violations, words=words, notes=reading.notes)


def _has_faulty_values(gap: Violation, faulty: Collection[str]) -> bool:
    """Whether a parameter seems to have no values because they are faulty."""
    paths = (f"{gap.field}.{name}" for name in VALUES)
    return any(snake(path) in faulty for path in paths)


def _is_of_study(violation: Violation) -> bool:
    """Whether a violation concerns the study, or an unknown key that may be a part of it."""
    key, _, below = str(violation.field).partition(".")
    is_unknown = violation.rule == "unknown-field" and not below
    return is_unknown or snake(key) in STUDY_KEYS


def training_pipeline(document: Json) -> Parsed:
    """Parse a TrainingPipeline; its ``trainingTaskInputs`` are a CustomJobSpec in either key case.

    The inputs are returned with the caller's keys, because the SDK reads them in its own case
    (docs/sources/vertex.md 4.4).
    """
    reading = read(_table(), "TrainingPipeline", document)
    inputs = reading.value.get("trainingTaskInputs", {})
    at = as_written(document, "trainingTaskInputs")
    if not isinstance(inputs, dict):
        task_violations: tuple[Violation, ...] = (_not_inputs(at, inputs),)
        task = NormalForm(value={}, violations=task_violations)
    else:
        task = read(_table(), "CustomJobSpec", inputs, at, root="TrainingPipeline")
    other_violations = (
        *_other_task(document, reading.value),
        *check_names(document, reading.value),
    )
    violations = (*reading.violations, *other_violations, *task.violations)
    document_value = {**reading.value, "trainingTaskInputs": task.value}
    combined_reading = NormalForm(
        value=document_value, violations=violations, notes=(*reading.notes, *task.notes)
    )
    parsed = _parse_job(document, combined_reading, "trainingTaskInputs")
    return replace(parsed, spec=replace(_require_spec(parsed), envelope=compact(reading.value)))


def _table() -> Table:
    return table("aiplatform_v1")


def _parse_job(document: Json, reading: NormalForm, prefix: str) -> Parsed:
    """Make the result for a document whose CustomJobSpec is at ``prefix``."""
    value = reading.value
    spec = replace(
        _spec(value.get(prefix, {})),
        display_name=value.get("displayName", ""),
        region=_region_of_name(document.get("name")),
        labels=value.get("labels", {}),
        envelope=compact({key: item for key, item in value.items() if key != prefix}),
    )
    pools = _too_many_pools(document, value.get(prefix, {}), f"{prefix}.")
    words = in_own_spelling(partial(caller_words, spec=spec, prefix=f"{prefix}."), document)
    violations = (*reading.violations, *pools)
    return Parsed(spec=spec, violations=violations, words=words, notes=reading.notes)


def _require_spec(parsed: Parsed) -> JobSpec:
    assert parsed.spec is not None  # noqa: S101  # _parse_job always makes one
    return parsed.spec


def _spec(value: Json) -> JobSpec:
    return JobSpec(
        dialect=Dialect.AIPLATFORM_V1,
        groups=groups_of(value.get("workerPoolSpecs", ())),
        base_output_dir=value.get("baseOutputDirectory", {}).get("outputUriPrefix"),
        scheduling=_scheduling(value.get("scheduling", {})),
        request=compact(value),
    )


def _scheduling(value: Json) -> Scheduling:
    return Scheduling(
        running_s_max=seconds(value.get("timeout")),
        waiting_s_max=seconds(value.get("maxWaitDuration")),
        strategy=value.get("strategy"),
        restart_job_on_worker_restart=value.get("restartJobOnWorkerRestart", False),
        disable_retries=value.get("disableRetries", False),
    )


def _region(value: Any) -> tuple[str | None, tuple[Violation, ...]]:
    if value is None or isinstance(value, str):
        return value, ()
    message = f"region must be a string, got {describe_value(value)}"
    accepted = "a region, such as us-central1"
    return None, (Violation(field="region", rule="wrong-type", message=message, accepted=accepted),)


def _region_of_name(name: Any) -> str | None:
    """Return the location in the full name of a job; None without one."""
    match = _LOCATION.search(name) if isinstance(name, str) else None
    return match[1] if match else None


def _too_many_pools(document: Json, value: Json, prefix: str) -> tuple[Violation, ...]:
    """Return a violation if there are more worker pools than roles."""
    count = len(value.get("workerPoolSpecs", ()))
    if count <= POOLS_MAX:
        return ()
    return (
        Violation(
            field=as_written(document, f"{prefix}workerPoolSpecs[{POOLS_MAX}]"),
            rule="worker-pools",
            message=f"a job must have at most {POOLS_MAX} worker pools, got {count}",
            accepted="primary, workers, parameter servers or reducers, and evaluators, in order",
        ),
    )


def _not_inputs(at: str, inputs: Any) -> Violation:
    message = f"trainingTaskInputs must be a CustomJobSpec, got {describe_value(inputs)}"
    accepted = "an object with workerPoolSpecs"
    return Violation(field=at, rule="wrong-type", message=message, accepted=accepted)


def _other_task(document: Json, value: Json) -> tuple[Violation, ...]:
    """Return a violation if the pipeline's task is not a custom training."""
    definition = value.get("trainingTaskDefinition")
    if definition is None or CUSTOM_TASK.search(definition):
        return ()
    return (
        Violation(
            field=as_written(document, "trainingTaskDefinition"),
            rule="unsupported-field",
            message=f"trainingTaskDefinition must be a custom training, got {definition}",
            accepted="gs://google-cloud-aiplatform/schema/trainingjob/definition/"
            "custom_task_1.0.0.yaml",
        ),
    )
