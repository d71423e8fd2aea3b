"""Small specs and the plans they become, for tests that are about one difference at a time."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from trainshed.launch.compose import compose
from trainshed.launch.names import google_addresses
from trainshed.launch.site import LaunchSite
from trainshed.model.job import Accelerator, JobSpec, Program, ProgramKind, ReplicaGroup
from trainshed.model.launch_plan import Environment, LaunchPlan, ReplicaPlan
from trainshed.model.roles import POOL_OF_ROLE, Dialect, Role
from trainshed.model.study import Metric, ParameterKind, ParameterSpec, StudySpec, TrialSpec

JOB_ID = "digits_7"
ARGS = ("--epochs", "3", "--lr=0.1", "pos")
TRAINER_URI = "gs://bkt/pkg/trainer-0.1.tar.gz"
TRIAL = TrialSpec(trial_id="3", parameters=(("learning_rate", "0.01"), ("layers", "2")))
STUDY = StudySpec(
    metrics=(Metric(metric_id="accuracy"),),
    parameters=(
        ParameterSpec(
            parameter_id="learning_rate", kind=ParameterKind.DOUBLE, bounds=(0.0001, 0.1)
        ),
        ParameterSpec(parameter_id="layers", kind=ParameterKind.INTEGER, bounds=(1, 5)),
    ),
)

#: The wire's words for a role in TrainingInput.
ML_FAMILY = {
    Role.PRIMARY: "master",
    Role.WORKER: "worker",
    Role.PARAMETER_SERVER: "parameterServer",
    Role.EVALUATOR: "evaluator",
}


def package(runtime_version: str | None = None, *, args: Iterable[str] = ARGS) -> Program:
    return Program(
        kind=ProgramKind.PYTHON_PACKAGE,
        runtime_version=runtime_version,
        package_uris=(TRAINER_URI,),
        module="trainer.task",
        args=tuple(args),
    )


def container(
    *,
    command: Iterable[str] = ("python", "/app/train.py"),
    args: Iterable[str] = ARGS,
    env: Iterable[tuple[str, str]] = (),
) -> Program:
    return Program(
        kind=ProgramKind.CONTAINER,
        image_uri="registry.example/train:1",
        command=tuple(command),
        args=tuple(args),
        env=tuple(env),
    )


def groups(
    counts: dict[Role, int], program: Program | None, accelerator: Accelerator | None = None
) -> tuple[ReplicaGroup, ...]:
    return tuple(
        ReplicaGroup(
            role=role,
            count=counts[role],
            machine_type="n1-standard-8",
            program=program,
            accelerator=accelerator,
        )
        for role in Role
        if role in counts
    )


def ml_spec(
    counts: dict[Role, int] | None = None,
    program: Program | None = None,
    *,
    use_chief: bool | None = None,
    study: StudySpec | None = None,
    accelerator: Accelerator | None = None,
) -> JobSpec:
    program = program or package("2.11")
    counts = counts or {Role.PRIMARY: 1}
    return JobSpec(
        dialect=Dialect.ML_V1,
        job_id=JOB_ID,
        region="us-west1",
        groups=groups(counts, program, accelerator),
        job_dir="gs://bkt/out/digits",
        use_chief_in_tf_config=use_chief,
        study=study,
        request=json.dumps(ml_request(counts, program)),
    )


def vertex_spec(
    counts: dict[Role, int] | None = None,
    program: Program | None = None,
    *,
    study: StudySpec | None = None,
    accelerator: Accelerator | None = None,
) -> JobSpec:
    program = program or container()
    counts = counts or {Role.PRIMARY: 1}
    return JobSpec(
        dialect=Dialect.AIPLATFORM_V1,
        display_name="digits",
        region="us-central1",
        groups=groups(counts, program, accelerator),
        base_output_dir="gs://bkt/out/digits",
        study=study,
        request=json.dumps(vertex_request(counts, program)),
    )


def ml_request(counts: dict[Role, int], program: Program) -> dict[str, Any]:
    """Build a whole ml v1 Job document, numbers as strings as gcloud sends them."""
    training: dict[str, Any] = {"scaleTier": "CUSTOM", "args": list(program.args)}
    for role, count in counts.items():
        family = ML_FAMILY.get(role, role.value)
        training[f"{family}Type"] = "n1-standard-8"
        training |= {} if role is Role.PRIMARY else {f"{family}Count": str(count)}
    if program.kind is ProgramKind.CONTAINER:
        training["masterConfig"] = {"imageUri": program.image_uri}
    else:
        training |= {"packageUris": list(program.package_uris), "pythonModule": program.module}
    if program.runtime_version:
        training["runtimeVersion"] = program.runtime_version
    training |= {"region": "us-west1", "jobDir": "gs://bkt/out/digits"}
    return {"jobId": JOB_ID, "labels": {"teamName": "vision"}, "trainingInput": training}


def vertex_request(counts: dict[Role, int], program: Program) -> dict[str, Any]:
    """Build a CustomJobSpec; a pool that is skipped before another one is an empty object."""
    pools: list[dict[str, Any]] = [{} for _ in range(1 + max(POOL_OF_ROLE[r] for r in counts))]
    for role, count in counts.items():
        pools[POOL_OF_ROLE[role]] = {
            "machineSpec": {"machineType": "n1-standard-8"},
            "replicaCount": str(count),
            **vertex_task(program),
        }
    return {
        "workerPoolSpecs": pools,
        "baseOutputDirectory": {"outputUriPrefix": "gs://bkt/out/digits"},
    }


def vertex_task(program: Program) -> dict[str, Any]:
    args = list(program.args)
    if program.kind is ProgramKind.CONTAINER:
        command = list(program.command)
        return {"containerSpec": {"imageUri": program.image_uri, "command": command, "args": args}}
    uris = list(program.package_uris)
    return {
        "pythonPackageSpec": {
            "executorImageUri": "registry.example/tf-cpu:1",
            "packageUris": uris,
            "pythonModule": program.module,
            "args": args,
        }
    }


def plan_of(spec: JobSpec, **changes: Any) -> LaunchPlan:
    """Compose a spec with Google's addresses and everything else at a plain value."""
    job_id, attempt = changes.pop("job_id", JOB_ID), changes.pop("attempt", 1)
    trial = changes.pop("trial", spec.trial)
    site = site_of(spec, **changes)
    return compose(replace(spec, trial=trial), site, job_id=job_id, attempt=attempt)


def site_of(spec: JobSpec, **changes: Any) -> LaunchSite:
    """A site with Google's addresses and everything else at a plain value."""
    plain: dict[str, Any] = {
        "addresses": google_addresses(spec, JOB_ID),
        "environment": Environment(python="python3"),
        "project": "demo-proj",
        "project_number": "1234567890",
    }
    return LaunchSite(**{**plain, **changes})


def replica_of(plan: LaunchPlan, role: Role, index: int = 0) -> ReplicaPlan:
    return next(r for r in plan.replicas if (r.role, r.index) == (role, index))


def json_of(replica: ReplicaPlan, name: str) -> Any:
    return json.loads(replica.env[name])
