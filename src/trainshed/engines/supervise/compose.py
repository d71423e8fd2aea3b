"""Composes the spec of an attempt from a launch plan, for the engines and for the preparer.

The supervisor does not import this module, because it reads the spec from a file.  The module
``commands`` completes the environments of the replicas.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Final

from trainshed.engines.network.rule import NetworkRule
from trainshed.engines.supervise.kernel.limits import ReplicaLimits
from trainshed.engines.supervise.record import observe
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.spec import (
    AttemptSpec,
    HangRule,
    LogRule,
    RemoteRule,
    ReplicaSpec,
)
from trainshed.model import trainer_contract
from trainshed.model.attempt import AttemptKey, MetricsPlan
from trainshed.model.launch_plan import LaunchPlan, ReplicaPlan
from trainshed.model.network import NetworkLayout

#: Seconds from SIGTERM to SIGKILL for processes that still run at the end of the job.
GRACE_S: Final = 10.0
#: Seconds that workers of an all-reduce job may run on after the end of the primary.
SETTLE_S: Final = 1.0
_TRIAL: Final = "CLOUD_ML_TRIAL_ID"


def attempt_of(  # noqa: PLR0913 - the parts of a spec
    key: AttemptKey,
    plan: LaunchPlan,
    replicas: Sequence[ReplicaSpec],
    *,
    notes: Sequence[str] = (),
    warnings: Sequence[str] = (),
    prepare: Sequence[str] | None = None,
    hang: HangRule = HangRule(),  # noqa: B008 - a constant
    log: LogRule = LogRule(),  # noqa: B008 - a constant
    grace_s: float = GRACE_S,
    usage_s: float = 0.0,
    remote: RemoteRule | None = None,
    network: NetworkRule | None = None,
) -> AttemptSpec:
    """Compose the spec of an attempt from its plan and the specs of its replicas."""
    return AttemptSpec(
        uid=key.uid,
        attempt=key.attempt,
        job_id=plan.job_id,
        grace_s=grace_s,
        settle_s=SETTLE_S,
        replicas=tuple(replicas),
        notes=(*plan.notes, *notes),
        warnings=(*plan.warnings, *warnings),
        prepare=None if prepare is None else tuple(prepare),
        hang=hang,
        log=log,
        checkpoints=plan.checkpoints if key.attempt > 1 else (),
        metrics=_metrics(plan.metrics),
        buckets=plan.environment.buckets or "",
        usage_s=usage_s,
        remote=remote,
        network=network,
    )


def process_of(  # noqa: PLR0913, PLR0917 - the parts of a process
    key: AttemptKey,
    folder: AttemptFolder,
    plan: LaunchPlan,
    replica: ReplicaPlan,
    argv: Sequence[str],
    env: Mapping[str, str],
) -> ReplicaSpec:
    """Compose the spec of a replica; add the variables that every replica of an attempt has."""
    return ReplicaSpec(
        task_name=replica.task_name,
        role=replica.role,
        index=replica.index,
        argv=tuple(argv),
        env={**env, **contract_of(key, folder, plan, replica)},
        cwd=plan.cwd or folder.work,
        trial=replica.env.get(_TRIAL, ""),
        limits=ReplicaLimits(
            memory_bytes=replica.memory_bytes_max, cpus=replica.cpus_max, pids=replica.processes_max
        ),
        hosts=_hosts(plan),
        binds=plan.binds,
        python="" if replica.container else plan.environment.python,
        host_name=_host_name(plan, replica),
    )


def contract_of(
    key: AttemptKey, folder: AttemptFolder, plan: LaunchPlan, replica: ReplicaPlan
) -> dict[str, str]:
    """Return the variables that describe the attempt to a replica (``model.trainer_contract``)."""
    return {
        **observe.report_env(plan, replica, folder.reduction),
        **mark_of(key),
        trainer_contract.ATTEMPT: str(key.attempt),
        trainer_contract.TASK: replica.task_name,
        trainer_contract.NOTICE_FILE: folder.notice,
        trainer_contract.PROGRESS_FILE: folder.progress(replica.task_name),
        trainer_contract.STEPS_FILE: folder.steps(replica.task_name),
    }


def mark_of(key: AttemptKey) -> dict[str, str]:
    """Return the variable that every process of an attempt has in its environment."""
    return {trainer_contract.JOB: str(key)}


def _hosts(plan: LaunchPlan) -> tuple[tuple[str, str], ...]:
    """Return the plan's (address, name) pairs; for a shared network, add the host name's pair.

    Gloo, torchrun and Ray send their peers the host name, or the address to which it resolves.
    """
    if plan.network is None or plan.network.layout is NetworkLayout.REPLICA:
        return plan.hosts
    return ((plan.network.addresses[0], os.uname().nodename), *plan.hosts)


def _host_name(plan: LaunchPlan, replica: ReplicaPlan) -> str:
    """Return the host name of a replica with its own network; empty for a shared network."""
    if plan.network is None or plan.network.layout is NetworkLayout.JOB:
        return ""
    keys = [(planned.role, planned.index) for planned in plan.replicas]
    own_address = plan.network.addresses[keys.index((replica.role, replica.index))]
    return next((name for address, name in plan.hosts if address == own_address), "")


def needs_packages(plan: LaunchPlan) -> bool:
    """Return whether a node must install packages or find an interpreter for the plan."""
    environment = plan.environment
    return bool(environment.packages or environment.requirements or "/" not in environment.python)


def _metrics(metrics: MetricsPlan | None) -> MetricsPlan | None:
    """Return the plan of metrics; None if it has neither metric files nor event files."""
    return metrics if metrics is not None and (metrics.files or metrics.summaries) else None
