"""From a JobSpec to a LaunchPlan: the last pure step before an engine starts anything.

Each replica's environment is built from blocks, one module a block, in a fixed order; the user's
own variables come last.  The whole plan is a value, so that ``--dry-run`` can print it and tests
can compare it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from trainshed.launch import (
    arguments,
    cluster_spec,
    containers,
    directories,
    gateway_env,
    jax_env,
    job_document,
    reduction_env,
    step_hooks,
    tf_config,
    torch_env,
    user_env,
)
from trainshed.launch.arguments import EntryPoints
from trainshed.launch.context import Context, Variables, in_role_order, program_of, unchanged
from trainshed.launch.devices import gpus_of, missing_devices, tpu_worker_notes
from trainshed.launch.names import replicas, task_name
from trainshed.launch.user_env import is_kept_by_service
from trainshed.launch.variables import UNSET
from trainshed.model.faults import Fault, Violation
from trainshed.model.gateway import GatewaySight
from trainshed.model.job import JobSpec, Program, ReplicaGroup
from trainshed.model.launch_plan import Address, Environment, LaunchPlan, ReplicaPlan
from trainshed.model.roles import Role
from trainshed.model.study import TrialSpec

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
)

NO_ENTRYPOINTS: Final[EntryPoints] = MappingProxyType({})


class _Starts(NamedTuple):
    """How the programs of images begin: at known entry points, or in the images themselves."""

    entrypoints: EntryPoints
    in_containers: frozenset[Role]
    packages: tuple[str, ...]


def compose(  # noqa: PLR0913  # a plan has many ingredients, and each is passed by name
    spec: JobSpec,
    *,
    job_id: str,
    attempt: int,
    addresses: Mapping[tuple[Role, int], Address],
    environment: Environment,
    project: str,
    project_number: str,
    trial: TrialSpec | None = None,
    map_uri: Callable[[str], str] = unchanged,
    metric_file: str | None = None,
    entrypoints: EntryPoints = NO_ENTRYPOINTS,
    in_containers: Collection[Role] = (),
    gateway: GatewaySight | None = None,
    buckets: str | None = None,
    cwd: str | None = None,
) -> LaunchPlan:
    """Say all that an engine needs to start one attempt of an admitted job.

    ``addresses`` holds every replica.  ``map_uri`` turns the job directory and
    the base of the AIP_* directories into what the program should see; user arguments are never
    mapped.  ``metric_file`` is where the primary of a trial reports; other replicas get files of
    their own beside it.  ``entrypoints`` are the entry points of images, by role, for containers
    that give no command.  ``in_containers`` are the roles that run in their own images, whose entry
    points nobody needs to know.  ``gateway`` is where its clients of Google's find theirs;
    ``buckets`` is the folder of all buckets, as replicas see it.

    Raises Fault with every violation when a group has nothing to run or a variable has a name that
    no environment can hold.
    """
    context = Context(
        spec=in_role_order(spec),
        job_id=job_id,
        addresses=addresses,
        project=project,
        project_number=project_number,
        trial=trial,
        map_uri=map_uri,
        metric_file=metric_file,
        gateway=gateway,
        buckets=buckets,
    )
    starts = _Starts(entrypoints, frozenset(in_containers), environment.packages)
    _check(context, starts)
    return LaunchPlan(
        job_id=job_id,
        attempt=attempt,
        replicas=_replicas(context, starts),
        environment=environment,
        cwd=cwd,
        unset_env=UNSET,
        notes=(
            *tpu_worker_notes(spec.groups),
            *notes_of(context.spec, _service_env_by_role(context)),
        ),
    )


def service_env(context: Context, role: Role, index: int) -> Variables:
    """Give all variables that the service sets, before the user's own."""
    return {name: value for block in BLOCKS for name, value in block(context, role, index).items()}


def _check(context: Context, starts: _Starts) -> None:
    wanted = list(replicas(context.spec))
    if wanted[:1] != [(Role.PRIMARY, 0)]:
        raise AssertionError(f"job {context.job_id!r} reached compose without a primary")
    if missing := [key for key in wanted if key not in context.addresses]:
        raise AssertionError(f"job {context.job_id!r} reached compose with no address of {missing}")
    violations = [
        violation
        for group in context.spec.groups
        for violation in _violations(context.spec, group, starts)
    ]
    if violations:
        raise Fault(violations)


def _violations(spec: JobSpec, group: ReplicaGroup, starts: _Starts) -> list[Violation]:
    program = program_of(spec, group)
    found = list(arguments.violations(spec, group, starts.entrypoints))
    if group.role in starts.in_containers:
        found = [violation for violation in found if violation.rule != arguments.NO_COMMAND]
    if program and group.role is not Role.REDUCER:
        found.extend(user_env.violations(group.role, program))
    return found


def _replicas(context: Context, starts: _Starts) -> tuple[ReplicaPlan, ...]:
    groups = {group.role: group for group in context.spec.groups}
    return tuple(
        _replica(context, groups[role], index, starts) for role, index in replicas(context.spec)
    )


def _replica(context: Context, group: ReplicaGroup, index: int, starts: _Starts) -> ReplicaPlan:
    gpu_count, gpu_type = gpus_of(group)
    program = None if group.role is Role.REDUCER else program_of(context.spec, group)
    container = None
    if group.role in starts.in_containers:
        container = containers.container_of(context, group, starts.packages)
    return ReplicaPlan(
        role=group.role,
        index=index,
        task_name=task_name(context.spec.dialect, group.role, index),
        argv=(
            containers.words_of(container)
            if container
            else arguments.argv_of(context, group, starts.entrypoints)
        ),
        env=user_env.merged(service_env(context, group.role, index), program),
        gpu_count=gpu_count,
        gpu_type=gpu_type,
        container=container,
    )


def _service_env_by_role(context: Context) -> dict[Role, Variables]:
    return {group.role: service_env(context, group.role, 0) for group in context.spec.groups}


def notes_of(spec: JobSpec, service_env: Mapping[Role, Variables]) -> tuple[str, ...]:
    """What a job asked for and will not get here: named, never silently swallowed.

    ``service_env`` holds what the service has set on one replica of each role.
    """
    found: list[str] = []
    for group in spec.groups:
        program = program_of(spec, group)
        found.extend(missing_devices(group))
        if group.role is not Role.REDUCER:
            found.extend(_reserved(program, service_env[group.role]))
    found.extend(reduction_env.notes_of(spec))
    return tuple(dict.fromkeys(found))


def _reserved(program: Program | None, service: Variables) -> Iterator[str]:
    for name, _ in program.env if program else ():
        if is_kept_by_service(name, service):
            yield f"{name} in the job's env is ignored: the service sets it."
