"""A job that ran as a run of its trainer: what it teaches of the next job of that kind."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainshed.catalog.catalog import Catalog
from trainshed.model.job import JobSpec, Program, ReplicaGroup
from trainshed.model.roles import Role
from trainshed.planning.host_kinds import CPU, host_kind
from trainshed.planning.prices import Machines
from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.training import Training

_TRAINS: Final = (Role.PRIMARY, Role.WORKER)
#: Jobs with these are not compared: what stands beside the hosts is a part of their speed.
_HELPS: Final = (Role.REDUCER, Role.PARAMETER_SERVER)
#: Of a parameter's gradient, where no hook has counted its bytes.
_BYTES: Final = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One job that is over."""

    training: Training
    host: HostKind
    run: Run
    key: str
    """Of its trainer, its model and its machines: jobs of one key teach each other."""


def job_run(spec: JobSpec, steps: Mapping[str, Any], catalog: Catalog, date: str) -> JobRun | None:
    """A job by what its steps came to (``StepsAchieved.numbers``).

    None where its hosts are not alike, or parameter servers or reducers stand beside them.
    """
    groups = _trainers(spec)
    kinds = {_kind_of(group, catalog) for group in groups}
    program = groups[0].program if groups else None
    if len(kinds) != 1 or program is None or any(spec.group(role) for role in _HELPS):
        return None
    (host,) = kinds
    hosts = sum(group.count for group in groups)
    run = _run(steps, hosts, host.per_host, date)
    parameters = float(steps.get("parameters") or 0.0)
    training = Training(
        model=program.module or "",
        parameters=parameters,
        largest=float(steps.get("largest") or 0.0),
        gradient_bytes=float(steps.get("gradient_bytes") or parameters * _BYTES),
        batch_per_accelerator=run.batch_per_accelerator or 1.0,
        stack=str(steps.get("stack") or ""),
    )
    return JobRun(training=training, host=host, run=run, key=_key(program, training, host))


def machines_of(spec: JobSpec) -> Sequence[Machines]:
    """What a job is paid for."""
    return [
        Machines(
            count=group.count,
            machine_type=group.machine_type or "",
            accelerator=(group.accelerator and group.accelerator.type) or "",
            accelerators=(group.accelerator and group.accelerator.count) or 0,
        )
        for group in spec.groups
    ]


def _trainers(spec: JobSpec) -> list[ReplicaGroup]:
    """The hosts that train: those with accelerators, where some have any."""
    found = (spec.group(role) for role in _TRAINS)
    groups = [group for group in found if group and group.count]
    return [group for group in groups if group.accelerator] or groups


def _kind_of(group: ReplicaGroup, catalog: Catalog) -> HostKind:
    name, device = group.machine_type or "", group.accelerator
    machine = catalog.known_machines.get(name)
    devices = (device.type or CPU, device.count or 1) if device else (CPU, 1)
    attached = devices if device else (None, 0)
    gbps = catalog.egress_gbps(machine, *attached) if machine else None
    return host_kind(catalog, name, machine, devices, gbps or 0.0)


def _run(steps: Mapping[str, Any], hosts: int, per_host: int, date: str) -> Run:
    """Samples are those of one replica, which is one host."""
    return Run(
        kind=RunKind.JOB,
        accelerators=hosts * per_host,
        hosts=hosts,
        batch_per_accelerator=_rounded(steps["samples_per_s"] * steps["step_s"] / per_host),
        steps=steps["steps"],
        step_s=steps["step_s"],
        step_s_p10=steps["step_s_p10"],
        step_s_p90=steps["step_s_p90"],
        wait_share=steps["wait_share"],
        date=date,
    )


def _rounded(batch: float) -> float:
    """A batch is the same one in every job, whatever its clock has rounded."""
    return float(f"{batch:.4g}")


def _key(program: Program, training: Training, host: HostKind) -> str:
    """Arguments are not in it: the next job has others.  Packages go by their files' names."""
    packages = sorted(uri.rpartition("/")[2] for uri in program.package_uris)
    what = [program.kind.value, program.image_uri, program.module, packages, program.command]
    model = [training.parameters, training.stack]
    where = [host.machine_type, host.accelerator, host.per_host]
    text = json.dumps([what, model, where], default=list)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
