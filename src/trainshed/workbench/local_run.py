"""Runs a job on this machine: makes a launch plan of a valid job and has the engine run it.

``prepare`` has no effects: ``--dry-run`` prints its result.  ``start`` makes the folders
and hands the plan to the local engine.
"""

import os
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed.engines.base import AttemptAt, Endpoint, OutputSink
from trainshed.engines.container_runtime import CHILDREN_OF_CLIENT, NO_RUNTIME, Runtime
from trainshed.engines.local import foreground
from trainshed.engines.network.addresses import loopback_addresses, own_addresses
from trainshed.engines.processes.peers import holder_of
from trainshed.files.beneath import PathBeneath
from trainshed.launch.compose import compose
from trainshed.launch.directories import AIP_FOLDERS
from trainshed.launch.names import google_addresses
from trainshed.launch.network import layout_of
from trainshed.launch.reduction_env import has_reducers
from trainshed.launch.site import LaunchSite, MachineLimits, ProgramSite
from trainshed.model.attempt import AttemptKey
from trainshed.model.faults import Fault, UsageFault
from trainshed.model.gateway import GatewaySight
from trainshed.model.job import JobSpec, ProgramKind
from trainshed.model.launch_plan import Address, Environment, LaunchPlan
from trainshed.model.network import NetworkLayout
from trainshed.model.resources import FleetPolicy
from trainshed.model.roles import Role
from trainshed.service.gateway.listening import GatewayListener, Serving
from trainshed.service.jobs.refusing import Say, in_words, one_a_field
from trainshed.service.starts.programs import Source, environment_of
from trainshed.service.starts.shape import shape_of
from trainshed.storage.buckets import SCHEME, Buckets, GsPaths
from trainshed.storage.folders import make_all

if TYPE_CHECKING:
    from trainshed.engines.local.containers.roots import ContainerRoots
    from trainshed.service.gateway.attempts import LivingAttempt
    from trainshed.service.starts.interpreters import TrainerLibrary

#: Makes the gateway's servers of the data directory, the attempt, and a function that finds the
#: attempt behind a connection.
ServeGateway = Callable[[Path, "LivingAttempt", AttemptAt], Serving]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalJob:
    """A valid job: its expanded spec, and the source of its program.

    ``say`` turns model paths into the caller's words.  ``entry_point`` is the command of containers
    that name none, because images are not opened.
    """

    spec: JobSpec
    job_id: str
    source: Source
    folder: Path
    """The working directory of the replicas."""
    say: Say
    entry_point: tuple[str, ...] = ()
    is_local_program: bool = False
    """Whether the program is on this machine and the job names no image to run."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that replicas get instead of those that the launch plan would give them."""
    advice: tuple[str, ...] = ()
    """Violations that do not matter on this machine, a sentence each."""
    any_gpu_count: int = 0
    """GPUs of any type for each training replica, if the job names no machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The settings of this machine that the command line chooses."""

    python: str
    buckets: Buckets
    python_note: str = ""
    """A sentence on how the interpreter differs from the job's; empty if not known."""
    cache_dir: Path | None = None
    """The folder for installed packages; the engine's default if None."""
    gs_paths: GsPaths = GsPaths.PATH
    start_port: int | None = None
    runtime: Runtime | None = None
    """The container runtime; None: images are not run."""
    policy: FleetPolicy = FleetPolicy.BEST_EFFORT
    """``EXACT`` limits replicas to the memory and the CPUs of their machine types."""
    overlays: tuple[Path, ...] = ()
    """The user's own machine types."""
    project: str = "local"
    project_number: str = "0"
    uid: int | None = None
    """The number of the job that is run; a random one if None."""
    has_network: bool = False
    """Whether the run has a network of its own."""
    gateway: GatewaySight | None = None
    """The gateway that gives programs gs:// and credentials; None: the run has no gateway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A plan and the folders that must exist before it starts."""

    plan: LaunchPlan
    spec: JobSpec
    output: Path | None
    """The folder for the job's results, if the job names one on this machine."""
    folders: tuple[Path, ...]


def runtime_of(choice: str, user: str | None) -> Runtime | None:
    """Return the container runtime of a flag.  Raises UsageFault if it does not respond."""
    if choice == NO_RUNTIME:
        return None
    # most local runs have no containers, and asking for a runtime imports subprocess
    from trainshed.engines.local.containers import detect  # noqa: PLC0415  # see above

    lookup = detect.find(choice, user=user)
    if lookup.runtime is None:
        raise UsageFault(f"--container-runtime {choice}: {lookup.reason}")
    return lookup.runtime


def prepare(job: LocalJob, host: Host, *, for_print: bool = False) -> Prepared:
    """Plan one attempt.  ``for_print`` gives replicas Google's host names and takes no ports.

    Raises Fault in the caller's words when a group has nothing to run, UsageFault for an
    invalid package or directory, EngineFault when a port is taken.
    """
    spec = job.spec
    _check_directories(spec, job.say)
    output = _output(spec, job, host)
    site = _site(job, host, output, for_print=for_print)
    try:
        plan = compose(spec, site, job_id=job.job_id, attempt=1)
    except Fault as fault:
        raise Fault(one_a_field(in_words(fault.violations, job.say))) from None
    return Prepared(plan=plan, spec=spec, output=output, folders=_folders(spec, output))


def _site(job: LocalJob, host: Host, output: Path | None, *, for_print: bool) -> LaunchSite:
    spec = job.spec
    contained = _container_notes(job, host)
    layout = _layout(job, contained, host)
    environment = _environment(spec, job, host, output)
    limits, limit_notes = _find_limits(spec, host)
    return LaunchSite(
        project=host.project,
        project_number=host.project_number,
        addresses=(
            google_addresses(spec, job.job_id) if for_print else _addresses(spec, layout, host)
        ),
        environment=environment,
        programs={} if for_print else _program_sites(spec, host),
        entrypoints=(
            {g.role: job.entry_point for g in spec.groups if g.role not in contained}
            if job.entry_point
            else {}
        ),
        in_containers=contained,
        env=job.env,
        map_uri=lambda uri: _map_directory(uri, job, host),
        buckets=str(host.buckets.root) if host.gateway else None,
        cwd=str(job.folder),
        gateway=host.gateway,
        layout=layout,
        has_names=layout is not None,
        limits=limits,
        gpus_per_replica=job.any_gpu_count,
        binds=_binds(environment, spec, output, host) if contained else (),
        shown=(host.gateway.folder,) if host.gateway else (),
        notes=(*notes_of(job, host, contained), *contained.values(), *limit_notes),
    )


def _program_sites(spec: JobSpec, host: Host) -> dict[Role, ProgramSite]:
    """Describe the library path of programs that use reducers and so need the trainer library."""
    if not has_reducers(spec):
        return {}
    library = _library(host).path_for(host.python)
    python_path = os.environ.get("PYTHONPATH", "")
    program = ProgramSite(library=library, python_path=python_path)
    return {**dict.fromkeys(Role, program), Role.REDUCER: ProgramSite(python=sys.executable)}


def _library(host: Host) -> "TrainerLibrary":
    # asking interpreters imports subprocess, and few local runs have reducers
    from trainshed.service.starts.interpreters import LIBRARY, TrainerLibrary  # noqa: PLC0415

    return TrainerLibrary(host.buckets.root.parent / LIBRARY)


def _check_directories(spec: JobSpec, say: Say) -> None:
    """Refuse URIs of other schemes, so that a job does not write to a folder called ``s3:``."""
    if (spec.job_dir, spec.base_output_dir) == (None, None):
        return
    # the rules import the catalog, which a plain run does not need
    from trainshed.admission.rules.directories import violations  # noqa: PLC0415  # see above

    if refusals := tuple(violations(spec)):
        raise Fault(in_words(refusals, say))


def _environment(spec: JobSpec, job: LocalJob, host: Host, output: Path | None) -> Environment:
    """Return the packages to install; output folders inside the project are not packaged."""
    environment = environment_of(spec, job.source, host.python, host.buckets, job.folder)
    outputs = (output, host.buckets.root)
    return replace(environment, ignored=tuple(str(folder) for folder in outputs if folder))


def number_host(host: Host) -> Host:
    """Return the host with a number for the job, which the names of its containers contain."""
    return replace(host, uid=foreground.new_uid())


def gateway_of(job: LocalJob, host: Host, serve: ServeGateway) -> GatewayListener:
    """Return the gateway of a run, which is not open yet.

    The gateway serves all descendants of this process and the containers of the job.  ``serve`` is
    called at the first connection, because it imports many modules.
    """
    data_dir, run_key = host.buckets.root.parent, AttemptKey(host.uid or 0, 1)
    ancestors = {os.getpid(): run_key}

    def attempt_at(peer: Endpoint, local: Endpoint) -> AttemptKey | None:
        holder = holder_of(peer, local, ancestors)
        if holder is None and host.runtime:
            return containers().find_holder(peer, local, {run_key})
        return holder

    @cache
    def containers() -> "ContainerRoots":
        # few local runs have containers, and asking for them imports subprocess
        from trainshed.engines.local.containers.roots import ContainerRoots  # noqa: PLC0415 - above

        return ContainerRoots(host.runtime, os.environ)

    def make() -> Serving:
        from trainshed.service.gateway.attempts import LivingAttempt  # noqa: PLC0415 - as above

        attempt = LivingAttempt(
            key=run_key, job_id=job.job_id, project=host.project, project_number=host.project_number
        )
        return serve(data_dir, attempt, attempt_at)

    return GatewayListener(data_dir, make, outlives=False)


def start(
    prepared: Prepared, host: Host, sink: OutputSink, enough: foreground.Enough | None = None
) -> foreground.Ran:
    """Make the folders and run the plan to its end, or until ``enough``.  Raises EngineFault."""
    make_all(map(PathBeneath, prepared.folders))
    cache_dir = str(host.cache_dir) if host.cache_dir else None
    with _with_secret(prepared, host) as plan:
        return foreground.run(
            plan, sink, cache_dir=cache_dir, runtime=host.runtime, uid=host.uid, enough=enough
        )


def _with_secret(prepared: Prepared, host: Host) -> AbstractContextManager[LaunchPlan]:
    if not has_reducers(prepared.spec):
        return nullcontext(prepared.plan)
    _library(host).folder_for(host.python)
    # what it imports takes longer than most jobs need to start, and few have reducers
    from trainshed.service.starts.reducers import secret_in_run  # noqa: PLC0415  # see above

    return secret_in_run(prepared.spec, prepared.plan)


def notes_of(job: LocalJob, host: Host, contained: Collection[Role]) -> tuple[str, ...]:
    """Return a sentence for each request of the job that this machine does not honour."""
    programs = [group.program for group in job.spec.groups if group.program]
    notes = [*job.advice]
    has_container = any(program.kind is ProgramKind.CONTAINER for program in programs)
    if host.runtime and not contained:
        notes.append(
            f"No container is started: the program is on this machine and runs in {host.python}."
        )
    elif host.python_note and not contained:
        notes.append(host.python_note)
    elif has_container and not (contained or job.is_local_program):
        notes.append(
            "A local run starts no containers without --container-runtime: their commands run in "
            f"{host.python}."
        )
    version = next((p.runtime_version for p in programs if p.runtime_version), None)
    if version and not host.python_note:
        notes.append(f"Runtime version {version} is not installed: the job runs in {host.python}.")
    if job.spec.study:
        notes.append("A local run runs a tuning job once, without the parameters of a trial.")
    if limit_s := job.spec.scheduling.running_s_max:
        limit = f"the job's limit of {limit_s:.12g} s does not end it"
        notes.append(f"A local run may take any time: {limit}.")
    return tuple(notes)


def _layout(job: LocalJob, contained: Collection[Role], host: Host) -> NetworkLayout | None:
    """Choose how replicas share a network of their own; None: they use the machine's network.

    Raises UsageFault if the run cannot have one.
    """
    if not host.has_network:
        return None
    if contained and host.runtime and host.runtime.name not in CHILDREN_OF_CLIENT:
        raise UsageFault(f"--network job: {host.runtime.name} makes the network of its containers")
    if host.start_port is not None:
        raise UsageFault("--start-port: with --network job ports are always the same; leave it out")
    return NetworkLayout.JOB if job.any_gpu_count else layout_of(job.spec)


def _addresses(
    spec: JobSpec, layout: NetworkLayout | None, host: Host
) -> dict[tuple[Role, int], Address]:
    """Choose a port for each process of each replica, and the port of the rendezvous.

    Raises EngineFault when a port is taken.
    """
    shape = shape_of(spec)
    if layout is not None:
        return own_addresses(shape, layout)
    return loopback_addresses(shape, host.start_port)


def _container_notes(job: LocalJob, host: Host) -> dict[Role, str]:
    """Return the roles that run in their own images, with a sentence for the job's log."""
    if host.runtime is None or job.is_local_program:
        return {}
    # few local runs have containers, and this imports the catalog
    from trainshed.workbench.local_containers import contained  # noqa: PLC0415  # see above

    return contained(job.spec, host.python, host.runtime)


def _binds(
    environment: Environment, spec: JobSpec, output: Path | None, host: Host
) -> tuple[tuple[str, str], ...]:
    from trainshed.workbench.local_containers import binds  # noqa: PLC0415  # as above

    return binds(spec, host.buckets, output, environment.packages)


def _find_limits(
    spec: JobSpec, host: Host
) -> tuple[Mapping[tuple[Role, int], MachineLimits], tuple[str, ...]]:
    """Return the limits of the replicas, and a sentence for each limit that is not enforced."""
    if host.policy is not FleetPolicy.EXACT:
        return {}, ()
    # few local runs have limits, and this imports the catalog
    from trainshed.service.starts.placing import limits_here  # noqa: PLC0415  # see above

    return limits_here(spec, host.overlays)


def _map_directory(directory: str, job: LocalJob, host: Host) -> str:
    """Return the directory as a program sees it (``--gs-paths``).

    A container does not start in the job's folder, so a relative path becomes absolute.
    """
    if directory.startswith(SCHEME):
        path = host.buckets.path_of(directory)  # also if the URI stays: this checks its form
        return str(path) if host.gs_paths is GsPaths.PATH else directory
    return str(job.folder / directory) if host.runtime else directory


def _output(spec: JobSpec, job: LocalJob, host: Host) -> Path | None:
    directory = spec.job_dir or spec.base_output_dir
    if not directory or (directory.startswith(SCHEME) and host.gs_paths is GsPaths.URI):
        return None
    return (
        job.folder / host.buckets.path_of(directory)
        if directory.startswith(SCHEME)
        else job.folder / directory
    )


def _folders(spec: JobSpec, output: Path | None) -> tuple[Path, ...]:
    if output is None:
        return ()
    below = AIP_FOLDERS if spec.base_output_dir and not spec.job_dir else ()
    return (output, *(output / name for name in below))
