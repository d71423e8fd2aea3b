"""The plan file of an attempt, which its supervisor and its preparer read.

The engine composes the replicas of attempts that need no preparation; the preparer composes the
replicas of all other attempts.  The file is JSON, so that people and the next release can read it.
It is private, because it contains the job's variables.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainshed.engines.container_runtime import USER_OF_PROJECT, Runtime
from trainshed.engines.environments.job_python import JobPython
from trainshed.engines.isolation import device_nodes
from trainshed.engines.isolation.compose import (
    Isolation,
    make_own_folders,
    own_folders,
    owner_of,
    reports_folder,
    variables_of,
    view_of,
)
from trainshed.engines.isolation.modes import CONTAINER
from trainshed.engines.local.containers.start import AttemptSetup, hand_over, replica_start
from trainshed.engines.local.devices.gpus import GpuDevice, Share
from trainshed.engines.network.addresses import network_rule
from trainshed.engines.processes.variables import select_for_programs
from trainshed.engines.supervise import compose
from trainshed.engines.supervise.commands import compose_command
from trainshed.engines.supervise.kernel.limits import ReplicaLimits
from trainshed.engines.supervise.record.folder import AttemptFolder, read_file, write_json
from trainshed.engines.supervise.record.spec import AttemptSpec, HangRule, LogRule, ReplicaSpec
from trainshed.files.beneath import PathBeneath
from trainshed.model.attempt import AttemptKey
from trainshed.model.codec import decode, encode
from trainshed.model.launch_plan import LaunchPlan, ReplicaPlan
from trainshed.model.roles import Role

if TYPE_CHECKING:
    from trainshed.engines.isolation.replica_machine import ReplicaMachine


class Preparation(NamedTuple):
    """The preparer's part of the file: a plan, and the settings of this machine for the plan."""

    plan: LaunchPlan
    cache_dir: str | None = None
    """The folder of installed packages; the default one if None."""
    uses_gpus: bool = True
    """Whether to use the machine's GPUs; False on a node that emulates GPUs."""
    runtime: Runtime | None = None
    """The container runtime of this machine."""
    gpu_alias: Mapping[str, str] = {}
    """The stand-in of each accelerator (``model.resources.Node``)."""
    closed_gpus: Mapping[str, str] = {}
    """The devices that the attempt must not use: their faults by UUID."""
    gpu_wait_s: float = 60.0
    """The time to wait for devices that other processes hold, in seconds."""
    takes_free: bool = False
    """Whether to take the devices that are free instead of waiting for all (a local run)."""
    fake_gpus: int = 0
    """The number of fake devices to use in place of the machine's."""
    package_bytes_max: int | None = None
    """The maximum size of an unpacked package; None: no limit."""
    relax_pins: bool = False
    """Whether to install the nearest version for a pin that cannot be met."""
    environments_bytes_max: int | None = None
    """The size of all installed packages above which unused packages are removed; None: no
    limit."""
    isolation: Isolation | None = None
    """The isolation of programs; None in a local run."""
    variables: tuple[str, ...] | None = None
    """The names of the server's variables that programs get besides the usual; None: all."""


def write(path: str, spec: AttemptSpec, preparation: Preparation) -> None:
    """Write the whole file, or leave it unchanged and raise OSError.

    Both parts are in one JSON object: each of the two readers ignores the fields of the other.
    """
    write_json(path, {**encode(preparation), **encode(spec)})


def read(path: str) -> Preparation:
    """Read the preparer's part of a plan file.  Raises OSError or ValueError."""
    return decode(Preparation, json.loads(read_file(PathBeneath.of_file(path))))


class ReplicaSite(NamedTuple):
    """The attempt and the machine for which replicas are composed."""

    key: AttemptKey
    folder: AttemptFolder
    env: Mapping[str, str] = os.environ
    """The environment of helpers of the replicas, such as the clients of containers."""
    variables: tuple[str, ...] | None = None
    """The names in ``env`` that programs get besides the usual variables; None: all of ``env``."""
    runtime: Runtime | None = None
    """The container runtime of this machine."""
    isolation: Isolation | None = None
    devices: tuple[GpuDevice, ...] = ()
    """The GPUs that the attempt has leased."""


def site_of(
    preparation: Preparation,
    key: AttemptKey,
    folder: AttemptFolder,
    env: Mapping[str, str] = os.environ,
) -> ReplicaSite:
    """Return the site of a preparation; ``env`` is the environment of its helpers."""
    return ReplicaSite(
        key=key,
        folder=folder,
        env=env,
        variables=preparation.variables,
        runtime=preparation.runtime,
        isolation=preparation.isolation,
    )


def replicas_of(
    site: ReplicaSite, plan: LaunchPlan, home: JobPython, shares: Sequence[Share]
) -> tuple[ReplicaSpec, ...]:
    """Compose all replicas of a plan.  Raises EngineFault or OSError for containers."""
    base = _select_base_env(site, plan.unset_env)
    if any(replica.container for replica in plan.replicas):
        _give_to_containers(site, plan)
        site = site._replace(runtime=_select_runtime(site, plan))
    return tuple(
        _wrap_process(site, plan, replica, share, home, base)
        if replica.container is None
        else _compose_container(site, plan, replica, share)
        for replica, share in zip(plan.replicas, shares, strict=True)
    )


def _select_base_env(site: ReplicaSite, unset: Sequence[str]) -> dict[str, str]:
    """Select the variables of this machine that replicas get; the replicas' own override them."""
    env = dict(site.env)
    if site.variables is not None:
        own = variables_of(site.isolation, site.folder)
        env = {**select_for_programs(site.env, site.variables), **own}
    return {name: text for name, text in env.items() if name not in unset}


def _wrap_process(  # noqa: PLR0913, PLR0917 - a process, and what was prepared for it
    site: ReplicaSite,
    plan: LaunchPlan,
    replica: ReplicaPlan,
    share: Share,
    home: JobPython,
    base: Mapping[str, str],
) -> ReplicaSpec:
    python = replica.python if "/" in replica.python else home.python
    python = shutil.which(python) or python
    machine = _compose_machine(site, plan, replica, python)
    view = view_of(
        site.isolation,
        plan,
        replica,
        folder=site.folder,
        entries=(home.python, *home.python_path_entries),
        devices=device_nodes.list_nodes_of([d for d in site.devices if d.uuid in share.uuids]),
        machine=machine,
    )
    argv, env = compose_command(
        replica, python=home.python, packages=home.python_path_entries, base=base, devices=share.env
    )
    if machine is not None:
        env = machine.variables(env, python, own=replica.env)
        argv = machine.command(argv, env["PATH"], python, home.python)
        machine.make(owner_of(site.isolation, plan), env["PATH"])
    spec = _compose_process(site, plan, replica, argv, env)
    return spec._replace(isolation=view, gpus=share.uuids)


def _compose_machine(
    site: ReplicaSite, plan: LaunchPlan, replica: ReplicaPlan, python: str
) -> "ReplicaMachine | None":
    """Return the folders of a replica of a server; None for a reducer, and in a local run."""
    if site.isolation is None or site.isolation.mode == CONTAINER or replica.role is Role.REDUCER:
        return None
    # local runs import this module, and do not need these
    from trainshed.engines.environments.replica_tools import tools_of  # noqa: PLC0415 - see above
    from trainshed.engines.isolation.replica_machine import machine_of  # noqa: PLC0415 - see above

    parent = Path(site.folder.path).parents[2]
    tools = tools_of(python, parent)
    return machine_of(
        site.isolation.mode,
        site.folder,
        replica.task_name,
        reports_folder(plan, replica, site.folder),
        tools,
    )


def outlines_of(site: ReplicaSite, plan: LaunchPlan) -> tuple[ReplicaSpec, ...]:
    """Return the replicas before a preparer has run: only their names and limits."""
    return tuple(_compose_process(site, plan, replica, (), {}) for replica in plan.replicas)


def spec_of(  # noqa: PLR0913 - a spec's parts, each with its default
    site: ReplicaSite,
    plan: LaunchPlan,
    replicas: Sequence[ReplicaSpec],
    *,
    notes: Sequence[str] = (),
    prepare: Sequence[str] | None = None,
    hang: HangRule = HangRule(),  # noqa: B008 - a constant
    log: LogRule = LogRule(),  # noqa: B008 - a constant
    grace_s: float = compose.GRACE_S,
    usage_s: float = 0.0,
) -> AttemptSpec:
    """Return the whole spec of a plan."""
    isolation = site.isolation
    return compose.attempt_of(
        site.key,
        plan,
        replicas,
        notes=(*notes, *(isolation.notes if isolation else ())),
        warnings=isolation.warnings if isolation else (),
        prepare=prepare,
        hang=hang,
        log=log,
        grace_s=grace_s,
        usage_s=usage_s,
        network=network_rule(plan.network),
    )


def _compose_process(
    site: ReplicaSite,
    plan: LaunchPlan,
    replica: ReplicaPlan,
    argv: tuple[str, ...],
    env: Mapping[str, str],
) -> ReplicaSpec:
    return compose.process_of(site.key, site.folder, plan, replica, argv, env)


def _compose_container(
    site: ReplicaSite, plan: LaunchPlan, replica: ReplicaPlan, share: Share
) -> ReplicaSpec:
    setup = AttemptSetup(
        mark=str(site.key),
        files=site.folder.containers,
        work=site.folder.work,
        replicas=len(plan.replicas),
        hosts=plan.hosts,
        binds=plan.binds,
        reads=plan.shown,
        shown=own_folders(plan, site.folder)[1:],
    )
    contract = compose.contract_of(site.key, site.folder, plan, replica)
    env = {**compose_command(replica, devices=share.env).env, **contract}
    start = replica_start(
        site.runtime, replica, setup, env=env, devices=share.uuids, launcher_env=site.env
    )
    spec = _compose_process(site, plan, replica, start.argv, start.env)
    env = {**start.env, **compose.mark_of(site.key)}
    spec = spec._replace(env=env, cleanup=start.cleanup, gpus=share.uuids)
    if start.is_process:
        return spec._replace(cwd=site.folder.work)
    return spec._replace(cwd=site.folder.work, limits=ReplicaLimits(), hosts=(), binds=())


def _select_runtime(site: ReplicaSite, plan: LaunchPlan) -> Runtime | None:
    """Return the runtime, with the UID and GID of the project's user if containers run as it."""
    owner = owner_of(site.isolation, plan)
    if site.runtime is None or site.runtime.user != USER_OF_PROJECT or owner is None:
        return site.runtime
    return site.runtime._replace(user=f"{owner.uid}:{owner.gid}")


def _give_to_containers(site: ReplicaSite, plan: LaunchPlan) -> None:
    """Make the user of the containers the owner of the attempt's folders.

    This is also necessary for root: without capabilities, it cannot read folders of other users.
    """
    own = make_own_folders(plan, site.folder)
    owner = owner_of(site.isolation, plan)
    if site.runtime is None or site.runtime.user == USER_OF_PROJECT:
        return  # the isolation has given the folders to the project's user
    if site.runtime.user is not None:
        folders = (*own, *(source for source, _ in plan.binds))
        hand_over(folders, site.runtime.user, before=owner and owner.uid)
    elif owner is not None:
        hand_over(own, "0:0", before=owner.uid)
