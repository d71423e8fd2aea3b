"""Composes the spec of an attempt on a cluster, for its launcher.

Either commands of the plan start a warden for every replica; or the cluster starts every warden, as
the first process of its replica's container; or the launcher runs the only replica itself.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from trainshed.engines.container_runtime import Runtime
from trainshed.engines.isolation.compose import own_folders
from trainshed.engines.supervise.commands import compose_command
from trainshed.engines.supervise.compose import GRACE_S, attempt_of, needs_packages, process_of
from trainshed.engines.supervise.kernel.limits import ReplicaLimits
from trainshed.engines.supervise.record.folder import AttemptFolder, write_json
from trainshed.engines.supervise.record.spec import (
    OWN_CONTAINER,
    SLURM_VARIABLES,
    AttemptSpec,
    HangRule,
    LogRule,
    RemoteRule,
    ReplicaSpec,
    StepRule,
)
from trainshed.engines.warden import images, marks
from trainshed.model.attempt import AttemptKey
from trainshed.model.codec import encode
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import ContainerPlan, LaunchPlan, ReplicaPlan
from trainshed.model.python_word import PYTHON_WORD

#: Further variables of a node that programs get: the usable GPUs, and the temporary folder.
KEEPS: Final = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
                "ZE_AFFINITY_MASK", "TMPDIR")  # fmt: skip


def spec_of(  # noqa: PLR0913 - a spec's parts, each with its default
    plan: LaunchPlan,
    key: AttemptKey,
    folder: AttemptFolder,
    *,
    steps: Sequence[StepRule] = (),
    port: int = 0,
    has_shared_folder: bool = True,
    drops: Sequence[str] = SLURM_VARIABLES,
    keeps: Sequence[str] = KEEPS,
    grace_s: float = GRACE_S,
    usage_s: float = 0.0,
    hang: HangRule = HangRule(),  # noqa: B008 - a constant
    log: LogRule = LogRule(),  # noqa: B008 - a constant
    listen_variable: str = "",
    cache: str = "",
    ends_s: float | None = None,
    ends_why: str = "",
    start_timeout_s: float = 300.0,
    notes: Sequence[str] = (),
    warnings: Sequence[str] = (),
    package_bytes_max: int | None = None,
    relax_pins: bool = False,
    runtime: Runtime | None = None,
    hold_s: float = 0.0,
    prepare: Sequence[str] = (),
) -> AttemptSpec:
    """Compose the spec of a plan; its paths are valid on the nodes.

    ``steps`` are the commands that start wardens, ``ends_s`` the seconds after which the attempt
    ends by itself, ``ends_why`` the reason if that is early, ``runtime`` the runtime for images on
    the nodes.

    Without steps, ``port`` is the port of the launcher, and every replica runs in its warden's own
    container, which has the mounts of the plan; its image must be one with a command.  Without
    both, the launcher runs the only replica; ``prepare`` is the command that installs the packages
    on its node.

    Raises ValueError if the steps and the replicas do not match, EngineFault if there is no runtime
    or no command for an image.
    """
    _check_steps(steps, port, len(plan.replicas))
    remote = RemoteRule(
        steps=tuple(steps),
        marks=marks.list_used(
            key, ((replica.role, replica.index) for replica in plan.replicas), _list_texts(plan)
        ),
        packages=encode(plan.environment) if needs_packages(plan) else {},
        keeps=tuple(keeps),
        unset=plan.unset_env,
        listen_variable=listen_variable,
        cache=cache,
        ends_s=ends_s,
        ends_why=ends_why,
        start_timeout_s=start_timeout_s,
        package_bytes_max=package_bytes_max,
        relax_pins=relax_pins,
        hold_s=hold_s,
        port=port,
        drops=tuple(drops),
        has_shared_folder=has_shared_folder,
        gpus=tuple(replica.gpu_count for replica in plan.replicas) if usage_s else (),
    )
    if port and not steps:
        replicas = _compose_in_containers(plan, key, folder)
    else:
        replicas = _compose_on_nodes(plan, key, folder, runtime)
    return attempt_of(
        key,
        plan,
        replicas,
        prepare=prepare if remote.packages and not remote.has_wardens else None,
        notes=notes,
        warnings=warnings,
        hang=hang,
        log=log,
        grace_s=grace_s,
        usage_s=usage_s,
        remote=remote,
    )


def write(folder: AttemptFolder, spec: AttemptSpec) -> None:
    """Write the spec to the plan file of an attempt.  Raises OSError.

    The record of the submission, which the engine writes durably next, makes the name durable.
    """
    folder.make()
    write_json(folder.plan, encode(spec), durably=True, syncs_name=False)


def _check_steps(steps: Sequence[StepRule], port: int, replicas: int) -> None:
    if not steps:
        if not port and replicas > 1:
            raise ValueError(
                f"the port or the steps must be given for {replicas} replicas, got neither"
            )
        return
    indexes = sorted(
        index for step in steps for index in range(step.first, step.first + step.tasks)
    )
    if indexes != list(range(replicas)):
        raise ValueError(
            f"the steps must start the replicas 0 to {replicas - 1} once each, got {indexes}"
        )


def _compose_on_nodes(
    plan: LaunchPlan, key: AttemptKey, folder: AttemptFolder, runtime: Runtime | None
) -> tuple[ReplicaSpec, ...]:
    """Compose the replicas that wardens, or the launcher, run on nodes."""
    return tuple(
        _compose_replica(plan, key, folder, replica)
        if replica.container is None
        else _compose_in_image(plan, key, folder, replica, runtime)
        for replica in plan.replicas
    )


def _compose_in_containers(
    plan: LaunchPlan, key: AttemptKey, folder: AttemptFolder
) -> tuple[ReplicaSpec, ...]:
    """Compose the replicas of wardens that a cluster starts in the replicas' containers."""
    replicas = (
        _compose_replica(plan, key, folder, replica)._replace(cwd=plan.cwd or "")
        if replica.container is None
        else _compose_in_own_image(plan, key, folder, replica, replica.container)
        for replica in plan.replicas
    )
    return tuple(replica._replace(binds=()) for replica in replicas)


def _compose_replica(
    plan: LaunchPlan, key: AttemptKey, folder: AttemptFolder, replica: ReplicaPlan
) -> ReplicaSpec:
    """Compose a replica without limits: the cluster sets them, and the warden adds variables."""
    python = PYTHON_WORD if needs_packages(plan) else plan.environment.python
    command = compose_command(replica, python=python)
    spec = process_of(key, folder, plan, replica, command.argv, command.env)
    return spec._replace(limits=ReplicaLimits())


def _compose_in_image(
    plan: LaunchPlan,
    key: AttemptKey,
    folder: AttemptFolder,
    replica: ReplicaPlan,
    runtime: Runtime | None,
) -> ReplicaSpec:
    if runtime is None:
        raise EngineFault(
            "the job's image needs apptainer on the nodes, but the engine has no runtime for it; "
            "set `containers` in [[engine]], or submit the job without an image"
        )
    argv = images.compose_run(
        runtime, replica, home=folder.work, folders=own_folders(plan, folder), binds=plan.binds
    )
    spec = process_of(key, folder, plan, replica, argv, compose_command(replica).env)
    return spec._replace(cwd=folder.work, limits=ReplicaLimits(), container=runtime.name)


def _compose_in_own_image(
    plan: LaunchPlan,
    key: AttemptKey,
    folder: AttemptFolder,
    replica: ReplicaPlan,
    container: ContainerPlan,
) -> ReplicaSpec:
    """Compose a replica whose program its warden starts in the image's own working folder."""
    argv = (*(container.command or ()), *(container.args or ()))
    if container.command is None or not argv:
        raise EngineFault(
            f"cannot start {replica.task_name}: the job gives no command for {container.image}, "
            "and the image's own is unknown; give the job a command"
        )
    spec = process_of(key, folder, plan, replica, argv, compose_command(replica).env)
    return spec._replace(cwd="", limits=ReplicaLimits(), container=OWN_CONTAINER)


def _list_texts(plan: LaunchPlan) -> Iterator[str]:
    """Yield the texts of a plan that may contain marks."""
    for replica in plan.replicas:
        yield from replica.argv
        if replica.container is not None:
            yield from (*(replica.container.command or ()), *(replica.container.args or ()))
        yield from replica.env.values()
    yield from (address for address, _ in plan.hosts)
