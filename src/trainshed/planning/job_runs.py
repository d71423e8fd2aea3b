"""Turns a finished job into a run of its trainer's calibration."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainshed.catalog.catalog import Catalog
from trainshed.model.job import JobSpec
from trainshed.model.roles import Role
from trainshed.planning.host_kinds import CPU, kind_of
from trainshed.planning.planned_jobs import trainers_of
from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.training import Training

#: Jobs with these roles are not compared, because the roles change the speed of the hosts.
HELPS: Final = (Role.REDUCER, Role.PARAMETER_SERVER)
#: Bytes of a parameter's gradient, if no hook has counted them.
_BYTES: Final = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One finished job."""

    training: Training
    host: HostKind
    run: Run
    key: str
    """The key of its trainer, machines and model: jobs of one key share a calibration."""


def count_nodes(spec: JobSpec, replicas: Iterable[tuple[str, str]]) -> int:
    """Return on how many nodes an attempt's trainers ran; 0 if one of the nodes is unknown.

    ``replicas`` are the roles and nodes of the attempt's replicas; an unknown node is empty.
    """
    roles = {group.role.value for group in trainers_of(spec)}
    nodes = [node for role, node in replicas if role in roles]
    return len(set(nodes)) if all(nodes) else 0


def job_run(
    spec: JobSpec, steps: Mapping[str, Any], catalog: Catalog, date: str, nodes: int
) -> JobRun | None:
    """Make the run of a job from the figures of its steps (``StepsAchieved.numbers``).

    ``nodes`` as ``count_nodes`` returns it.  None if the hosts differ, if the job has parameter
    servers or reducers, or if some of several hosts shared a node or ran on an unknown one: what
    such hosts exchange uses no network.
    """
    groups = trainers_of(spec)
    kinds = {kind_of(group, catalog) for group in groups}
    trainer = trainer_key(spec)
    if len(kinds) != 1 or trainer is None or any(spec.group(role) for role in HELPS):
        return None
    (host,) = kinds
    hosts = sum(group.count for group in groups)
    if nodes < hosts > 1:
        return None
    run = run_of_steps(steps, host, hosts * host.per_host, hosts, date)
    parameters = float(steps.get("parameters") or 0.0)
    training = Training(
        model=(groups[0].program and groups[0].program.module) or "",
        parameters=parameters,
        largest=float(steps.get("largest") or 0.0),
        gradient_bytes=float(steps.get("gradient_bytes") or parameters * _BYTES),
        batch_per_accelerator=run.batch_per_accelerator or 1.0,
        micro_batches=run.micro_batches,
        state_bytes=float(steps.get("state_bytes") or 0.0),
        stack=str(steps.get("stack") or ""),
    )
    model = _digest([training.parameters, training.stack])
    return JobRun(training=training, host=host, run=run, key=f"{trainer}-{model}")


def run_of_steps(
    steps: Mapping[str, Any], host: HostKind, accelerators: int, hosts: int, date: str
) -> Run:
    """Return a job's run; ``steps`` counts the samples of one replica, which is one host."""
    memory = "host_bytes" if host.accelerator == CPU else "device_bytes"
    return Run(
        kind=RunKind.JOB,
        accelerators=accelerators,
        hosts=hosts,
        machines=hosts,
        batch_per_accelerator=_rounded(
            steps["samples_per_s"] * steps["step_s"] * hosts / accelerators
        ),
        micro_batches=steps.get("micro_batches") or 1,
        memory_bytes=float(steps.get(memory) or 0.0),
        steps=steps["steps"],
        step_s=steps["step_s"],
        step_s_p10=steps["step_s_p10"],
        step_s_p90=steps["step_s_p90"],
        wait_share=steps["wait_share"],
        date=date,
    )


def _rounded(batch: float) -> float:
    """Round a batch, so that it is equal in every job."""
    return float(f"{batch:.4g}")


def trainer_key(spec: JobSpec) -> str | None:
    """Return the first part of ``JobRun.key``, for the trainer and its machines.

    None if the trainer is unknown.  Arguments do not count, because they differ from job to job.
    Packages count by their file names.
    """
    group = next(iter(trainers_of(spec)), None)
    if group is None or group.program is None:
        return None
    program, device = group.program, group.accelerator
    packages = sorted(uri.rpartition("/")[2] for uri in program.package_uris)
    program_parts = [
        program.kind.value,
        program.image_uri,
        program.module,
        packages,
        program.command,
    ]
    machine_parts = [group.machine_type, *((device.type, device.count) if device else ())]
    return _digest([program_parts, machine_parts])


def _digest(words: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(words, default=list).encode()).hexdigest()[:16]
