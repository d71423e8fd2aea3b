"""The job of ``local train`` without a file and without machines: what gcloud's command does.

Nothing is checked, because the job requests nothing that is in the catalog; the counts are gcloud's
(docs/sources/gcloud.md 9.1).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trainshed.model.faults import FieldPath, UsageFault
from trainshed.model.job import JobSpec, Program, ProgramKind, ReplicaGroup
from trainshed.model.roles import Dialect, Role
from trainshed.service.jobs import submit_flags
from trainshed.service.jobs.submit_flags import FLAGS

#: gcloud's counts with ``--distributed``; without it one process runs.
DISTRIBUTED_DEFAULTS: Mapping[Role, int] = {
    Role.WORKER: 2,
    Role.PARAMETER_SERVER: 2,
    Role.EVALUATOR: 0,
}

#: The flag of each role's count.
COUNT_FLAGS: Mapping[Role, str] = {
    Role.WORKER: "worker-count",
    Role.PARAMETER_SERVER: "parameter-server-count",
    Role.EVALUATOR: "evaluator-count",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainJob:
    """The arguments of the command; ``flags`` are the submit flags by name."""

    module: str
    args: Sequence[str]
    distributed: bool = False
    flags: Mapping[str, str] = field(default_factory=dict)


def plain_spec(job: PlainJob) -> JobSpec:
    """Make the spec of the job.  Raises UsageFault for a count that is no number."""
    text = job.flags.get
    job_dir = text("job-dir")
    program = Program(
        kind=ProgramKind.PYTHON_PACKAGE,
        module=job.module,
        args=tuple(job.args),
        package_uris=tuple(FLAGS["packages"].read("--packages", text("packages") or "")),
        runtime_version=text("runtime-version"),
        python_version=text("python-version"),
    )
    groups = [ReplicaGroup(role=role, count=count, program=program) for role, count in counts(job)]
    return JobSpec(
        dialect=Dialect.ML_V1,
        region=text("region"),
        groups=tuple(groups),
        job_dir=job_dir,
        request=json.dumps({"trainingInput": _job_in_tf_config(job)}),
    )


def plain_env(job: PlainJob) -> dict[str, str]:
    """Return the variables that gcloud sets for a single process (docs/sources/gcloud.md 9.1)."""
    if job.distributed:
        return {}
    tf_config = {"job": _job_in_tf_config(job), "task": {}, "cluster": {}, "environment": "cloud"}
    return {"TF_CONFIG": json.dumps(tf_config)}


def counts(job: PlainJob) -> list[tuple[Role, int]]:
    """Return the number of replicas of each role; roles without replicas are left out."""
    role_counts = [(Role.PRIMARY, 1)]
    for role, default in DISTRIBUTED_DEFAULTS.items():
        flag = COUNT_FLAGS[role]
        count = submit_flags.whole(f"--{flag}", job.flags.get(flag, str(default)))
        if count < 0:
            raise UsageFault(f"--{flag} must be 0 or more, got {count}")
        if job.distributed and count > 0:
            role_counts.append((role, count))
    return role_counts


def ignored_counts(job: PlainJob) -> list[str]:
    """Return the count flags without effect, because ``--distributed`` is missing."""
    if job.distributed:
        return []
    return [f"--{flag}" for flag in COUNT_FLAGS.values() if flag in job.flags]


def say(path: FieldPath) -> str:
    """Return the flag of a field that a plain job can have wrong."""
    return {"module": "--module-name", "package_uris": "--packages"}.get(
        path.field.value, f"--{path.field.value.replace('_', '-')}"
    )


def _job_in_tf_config(job: PlainJob) -> dict[str, object]:
    """Return the job of TF_CONFIG, with the two keys that gcloud's local train sets."""
    job_dir = job.flags.get("job-dir")
    args = [*job.args, *(("--job-dir", job_dir) if job_dir else ())]
    return {"job_name": job.module, "args": args}


def command_spec(command: tuple[str, ...]) -> JobSpec:
    """Make the spec of one program with this command."""
    program = Program(kind=ProgramKind.CONTAINER, command=command)
    group = ReplicaGroup(role=Role.PRIMARY, program=program)
    return JobSpec(dialect=Dialect.AIPLATFORM_V1, groups=(group,))
