"""Turns a JobSpec into a LaunchPlan: the last step without I/O before an engine starts anything.

Each replica's environment is built from blocks, one module a block, in a fixed order; the user's
own variables come last.  The whole plan is a value, so that ``--dry-run`` can print it and tests
can compare it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from trainshed.launch import (
    arguments,
    cluster_spec,
    commands,
    containers,
    directories,
    gateway_env,
    jax_env,
    job_document,
    reduction_env,
    step_hooks,
    tf_config,
    torch_env,
    trace_env,
    user_env,
)
from trainshed.launch.context import Context, Variables, in_role_order, program_of
from trainshed.launch.devices import gpus_of, missing_devices, tpu_worker_notes
from trainshed.launch.interpreter_env import with_interpreter
from trainshed.launch.names import list_replicas, task_name
from trainshed.launch.network import list_names, network_of
from trainshed.launch.reduction_env import with_token_file
from trainshed.launch.results import list_checkpoint_folders, metrics_of
from trainshed.launch.site import NO_LIMITS, NO_PROGRAM_SITE, LaunchSite
from trainshed.launch.user_env import is_kept_by_service
from trainshed.launch.variables import UNSET
from trainshed.model.faults import Fault, Violation
from trainshed.model.job import JobSpec, ReplicaGroup
from trainshed.model.launch_plan import Environment, LaunchPlan, ReplicaPlan
from trainshed.model.roles import Role

#: The variables that the service sets, in this order.
BLOCKS: Final[tuple[Callable[[Context, Role, int], Variables], ...]] = (
    directories.variables,
    job_document.variables,
    cluster_spec.variables,
    reduction_env.variables,
    tf_config.variables,
    torch_env.variables,
    jax_env.variables,
    gateway_env.variables,
    step_hooks.variables,
    trace_env.variables,
)

#: The roles that exchange gradients.
TRAINS: Final = frozenset({Role.PRIMARY, Role.WORKER})


def compose(spec: JobSpec, site: LaunchSite, *, job_id: str, attempt: int) -> LaunchPlan:
    """Return all that an engine needs to start one attempt of an admitted job.

    Raises Fault with every violation when a group has nothing to run or a variable has a name that
    no environment can hold.
    """
    context = Context(spec=in_role_order(spec), job_id=job_id, site=site)
    _check(context)
    replicas = tuple(_compose_replicas(context))
    plan = LaunchPlan(
        job_id=job_id,
        attempt=attempt,
        replicas=replicas,
        environment=_environment(site.environment, replicas),
        cwd=site.cwd,
        unset_env=UNSET,
        notes=tuple(dict.fromkeys((*site.notes, *_list_notes(context, spec, replicas)))),
        warnings=site.warnings,
        hosts=tuple(list_names(context, replicas)),
        binds=site.binds,
        checkpoints=tuple(list_checkpoint_folders(context, attempt)),
        metrics=metrics_of(context, replicas),
        owner=site.owner,
        reads=site.reads,
        shown=site.shown,
        network=network_of(site, replicas),
        server_ports=site.server_ports,
    )
    return plan if site.token_file is None else with_token_file(plan, site.token_file)


def service_env(context: Context, role: Role, index: int) -> Variables:
    """Return all variables that the service sets for a replica; the user's are added later."""
    return {name: value for block in BLOCKS for name, value in block(context, role, index).items()}


def _check(context: Context) -> None:
    expected = list(list_replicas(context.spec))
    if expected[:1] != [(Role.PRIMARY, 0)]:
        raise AssertionError(f"job {context.job_id!r} reached compose without a primary")
    if missing := [key for key in expected if key not in context.site.addresses]:
        raise AssertionError(f"job {context.job_id!r} reached compose with no address of {missing}")
    violations = [
        violation for group in context.spec.groups for violation in _violations(context, group)
    ]
    if violations:
        raise Fault(violations)


def _violations(context: Context, group: ReplicaGroup) -> Iterator[Violation]:
    program = program_of(context.spec, group)
    for violation in arguments.violations(context.spec, group, context.site.entrypoints):
        # the image has a command where the job gives none
        if violation.rule != arguments.NO_COMMAND or group.role not in context.site.in_containers:
            yield violation
    if program and group.role is not Role.REDUCER:
        yield from user_env.violations(group.role, program)


def _compose_replicas(context: Context) -> Iterator[ReplicaPlan]:
    groups = {group.role: group for group in context.spec.groups}
    for role, index in list_replicas(context.spec):
        yield _replica(context, groups[role], index)


def _replica(context: Context, group: ReplicaGroup, index: int) -> ReplicaPlan:
    site, role = context.site, group.role
    program = site.programs.get(role, NO_PROGRAM_SITE)
    container = None
    if role in site.in_containers:
        container = containers.container_of(context, group, site.environment.packages)
    env = _env(context, group, index)
    gpu_count, gpu_type = _gpus(site, group, index)
    limits = site.limits.get((role, index), NO_LIMITS)
    return ReplicaPlan(
        role=role,
        index=index,
        task_name=task_name(context.spec.dialect, role, index),
        argv=(
            containers.words_of(container)
            if container
            else commands.with_interpreter(
                arguments.argv_of(context, group, site.entrypoints),
                role,
                program,
                site.environment.python,
            )
        ),
        env=env if container else with_interpreter(env, program),
        gpu_count=gpu_count,
        gpu_type=gpu_type,
        memory_bytes_max=limits.memory_bytes_max,
        cpus_max=limits.cpus_max,
        python="" if container or role is Role.REDUCER else program.python,
        container=container,
    )


def _env(context: Context, group: ReplicaGroup, index: int) -> Variables:
    """Return the variables of the service, the job and the site; a reducer has the first only."""
    service = service_env(context, group.role, index)
    if group.role is Role.REDUCER:
        return service
    return {
        **user_env.merge_variables(service, program_of(context.spec, group)),
        **context.site.env,
    }


def _gpus(site: LaunchSite, group: ReplicaGroup, index: int) -> tuple[int, str | None]:
    if (group.role, index) in site.emulated:
        return 0, None
    count, kind = gpus_of(group)
    return count or (site.gpus_per_replica if group.role in TRAINS else 0), kind


def _environment(environment: Environment, replicas: Sequence[ReplicaPlan]) -> Environment:
    """Return the packages to install on the machine: none if all replicas run in containers."""
    if all(replica.container or replica.role is Role.REDUCER for replica in replicas):
        return replace(environment, packages=())
    return environment


def _list_notes(context: Context, spec: JobSpec, replicas: Sequence[ReplicaPlan]) -> Iterator[str]:
    """List sentences about requests of the job that are not met."""
    yield from step_hooks.notes_of(context, replicas)
    yield from tpu_worker_notes(spec.groups)
    for group in context.spec.groups:
        yield from missing_devices(group)
        if group.role is not Role.REDUCER:
            yield from _reserved_notes(context, group)
    yield from reduction_env.notes_of(context.spec)


def _reserved_notes(context: Context, group: ReplicaGroup) -> Iterator[str]:
    program = program_of(context.spec, group)
    service = service_env(context, group.role, 0)
    for name, _ in program.env if program else ():
        if is_kept_by_service(name, service):
            yield f"{name} in the job's env is ignored: the service sets it."
