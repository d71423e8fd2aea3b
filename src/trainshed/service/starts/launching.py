"""Makes the launch plan of an attempt once its seats are known.

``launch.compose`` decides what the plan says.  This module describes where the attempt will run:
the engine gives addresses and folders as replicas see them, the table of images interpreters.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.engines.base import Engine, FilesystemView, Traits
from trainshed.engines.capabilities import SupportsServerPaths
from trainshed.engines.several import Engines
from trainshed.files.beneath import PathBeneath
from trainshed.launch.compose import compose
from trainshed.launch.context import program_of
from trainshed.launch.directories import AIP_FOLDERS
from trainshed.launch.network import layout_of
from trainshed.launch.site import LaunchSite, keep_uri
from trainshed.model.attempt import AttemptKey
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.faults import EngineFault, UsageFault
from trainshed.model.gateway import GatewaySight
from trainshed.model.job import JobSpec
from trainshed.model.launch_plan import Environment, LaunchPlan, Owner
from trainshed.model.network import NetworkLayout
from trainshed.model.resources import Claim, JobDemand, Seat, SeatsOrClaim
from trainshed.model.roles import Role
from trainshed.service.gateway.places import NO_GATEWAY, NO_PROXIES, OpenGateway
from trainshed.service.starts.bucket_uris import (
    buckets_of_project,
    check_buckets,
    mounted,
    named,
    with_real_paths,
)
from trainshed.service.starts.gateway_view import find_gateway, has_daemon
from trainshed.service.starts.images import Images, ImagesByEngine, StandIn
from trainshed.service.starts.interpreters import TrainerLibrary
from trainshed.service.starts.placing import (
    NodeOfReplica,
    cpu_warnings,
    exact_limits,
    list_emulated,
    placing_notes,
)
from trainshed.service.starts.program_sites import ProgramSites
from trainshed.service.starts.programs import Source, environment_of
from trainshed.service.starts.reducers import make_secret, secret_path
from trainshed.service.starts.shape import shape_of
from trainshed.service.starts.stand_ins import (
    entry_points,
    explain_lack,
    images_by_role,
    in_containers,
    notes_of,
    stand_ins,
)
from trainshed.storage.buckets import FOLDER_MODE, SCHEME, Buckets, GsPaths
from trainshed.storage.folders import make_all
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord

#: The primary's file in the folder of metric files.
METRIC_FILE = "output.metrics"

#: The most jobs in the cache of ``startable``.
_REMEMBERED_MAX: Final = 4096

#: The first attempt of a job that is not stored; stored jobs have numbers from 1.
UNSTORED_KEY: Final = AttemptKey(0, 1)

_NAMESPACE_OF: Final = {
    NetworkLayout.JOB: "all replicas",
    NetworkLayout.REPLICA: "each replica",
}


class UnstoredJob(NamedTuple):
    """An admitted job whose launch plan is composed though the job is not stored."""

    project: str
    job_id: str
    spec: JobSpec
    notes: tuple[str, ...]
    demand: JobDemand


class _LaunchedJob(NamedTuple):
    """The values of a job that its launch plan needs."""

    project: str
    spec: JobSpec
    notes: Sequence[str]
    demand: JobDemand
    find_owner_number: Callable[[str], int]


class _AttemptEngine(NamedTuple):
    """The engine that runs an attempt."""

    key: AttemptKey
    name: str
    engine: Engine
    traits: Traits
    images: Images

    def server_path(self, path: str) -> Path:
        """Return the server's path of a folder that replicas see under ``path``."""
        engine = self.engine
        return engine.server_path(path) if isinstance(engine, SupportsServerPaths) else Path(path)


class _ReplicaPaths(NamedTuple):
    """Maps paths of the server to paths of replicas: pairs (server, replica)."""

    pairs: tuple[tuple[Path, Path], ...]

    def path(self, path: str) -> str:
        """Convert a path of the server to the path that replicas see."""
        for server_folder, replica_folder in self.pairs:
            if server_folder != replica_folder and Path(path).is_relative_to(server_folder):
                return str(replica_folder / Path(path).relative_to(server_folder))
        return path

    def environment(self, environment: Environment) -> Environment:
        """Convert the paths of packages to paths that replicas see."""
        packages = tuple(map(self.path, environment.packages))
        return replace(environment, packages=packages, buckets=str(self.pairs[0][1]))

    def binds(self, mounts: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Convert the folders of (folder, mount) pairs to paths that replicas see."""
        return tuple((self.path(folder), mount) for folder, mount in mounts)


class _Programs(NamedTuple):
    """The environment or image of each role's program."""

    stand_ins: Mapping[Role, StandIn]
    contained: Collection[Role]


class _SiteInputs(NamedTuple):
    """The values from which the server makes the ``LaunchSite`` of an attempt."""

    programs: _Programs
    layout: NetworkLayout | None
    view: FilesystemView
    buckets: Buckets
    """The buckets by the paths that replicas see."""
    nodes: NodeOfReplica
    environment: Environment
    """The packages to install, by paths of the server."""


class Launching:
    """Called by the controller once the seats of an attempt are committed."""

    def __init__(  # noqa: PLR0913 - what a plan is made of, passed by name
        self,
        store: Store,
        engines: Engines,
        *,
        images: ImagesByEngine,
        buckets: Buckets,
        library: Path,
        environ: Mapping[str, str] = os.environ,
        open_gateway: OpenGateway = NO_GATEWAY,
        gs_paths: GsPaths = GsPaths.URI,
        proxies: Mapping[str, str] = NO_PROXIES,
        server_ports: Callable[[], tuple[int, ...]] = tuple,
        trace_of: Callable[[AttemptKey], str] = lambda _: "",
    ) -> None:
        """``buckets`` are those of the server; replicas may see them elsewhere.

        ``library`` is the folder in which the trainer library is shown; ``environ`` is the server's
        environment.  ``gs_paths`` is what programs get as their directories where they have a
        gateway; without one they get paths.  ``proxies`` are the server's variables that jobs get.
        ``server_ports`` gives the TCP ports at which the server listens.  ``trace_of`` returns the
        ``traceparent`` of an attempt, empty without traces.
        """
        self._store = store
        self._engines = engines
        self._images = images
        self._startable = lru_cache(_REMEMBERED_MAX)(self._why_not_startable)
        self._buckets = buckets
        self._program_sites = ProgramSites(TrainerLibrary(library), environ)
        self._open_gateway = open_gateway
        self._gs_paths = gs_paths
        self._proxies = proxies
        self._server_ports = server_ports
        self._trace_of = trace_of

    def __call__(self, record: JobRecord, attempt: int, place: SeatsOrClaim) -> LaunchPlan:
        """Return the launch plan of an attempt, and make the folders that it names.

        Raises Fault for a job that can never be started, EngineFault for a missing package, a
        folder that cannot be written to, or no free port.
        """
        attempt_engine = self._engine_of(AttemptKey(record.uid, attempt), place)
        spec, notes = self._store.to_launch(record.uid)
        job = _LaunchedJob(
            project=record.job.project,
            spec=spec,
            notes=notes,
            demand=place.demand if isinstance(place, Claim) else self._store.demand(record.uid),
            find_owner_number=self._store.owner_number,
        )
        try:
            spec, site = self._prepare(job, place, attempt_engine)
            job_id = spec.trial.study_job_id if spec.trial else record.job.job_id
            plan = compose(spec, site, job_id=job_id, attempt=attempt)
            self._make_files(spec, site, attempt_engine)
        except UsageFault as fault:
            raise EngineFault(str(fault)) from fault
        title = record.job.spec.display_name or record.job.job_id
        return replace(plan, title=title, creator=record.creator)

    def preview(self, job: UnstoredJob, place: SeatsOrClaim) -> LaunchPlan:
        """Compose the plan of a job's first attempt; stores nothing and makes no file of the job.

        The server's gateway opens if it is not open yet, because the plan names its port.
        The plan has ``UNSTORED_KEY`` in the place of the number that the store gives a job.
        Raises the same errors as a call.
        """
        launched = _LaunchedJob(
            project=job.project,
            spec=job.spec,
            notes=job.notes,
            demand=job.demand,
            find_owner_number=self._store.next_owner_number,
        )
        try:
            spec, site = self._prepare(launched, place, self._engine_of(UNSTORED_KEY, place))
            return compose(spec, site, job_id=job.job_id, attempt=UNSTORED_KEY.attempt)
        except UsageFault as fault:
            raise EngineFault(str(fault)) from fault

    def startable(self, uid: int, engine: str) -> Explanation | None:
        """Return why an engine cannot start the programs of a job; None if it can."""
        return self._startable(uid, engine)

    def _why_not_startable(self, uid: int, engine: str) -> Explanation | None:
        spec, _ = self._store.to_launch(uid)
        images = self._images.of(engine)
        by_role = stand_ins(spec, images)
        lacking = {role for role, stand_in in by_role.items() if stand_in is None}
        programs = [program_of(spec, group) for group in spec.groups if group.role in lacking]
        reasons = dict.fromkeys(explain_lack(program, images) for program in programs if program)
        if not reasons:
            return None
        return Explanation(reason=Reason.IMAGE, message="; ".join(reasons))

    def _engine_of(self, key: AttemptKey, place: SeatsOrClaim) -> _AttemptEngine:
        """Return the engine of a place.  Raises OSError if this server runs without it."""
        name = self._engines.name_at(place)
        engine = self._engines.get_by_name(name)
        return _AttemptEngine(key, name, engine, engine.traits, self._images.of(name))

    def _prepare(
        self, job: _LaunchedJob, place: SeatsOrClaim, attempt_engine: _AttemptEngine
    ) -> tuple[JobSpec, LaunchSite]:
        """Describe where the attempt will run; changes no file."""
        seats = () if isinstance(place, Claim) else place
        has_bucket = buckets_of_project(self._store, job.project)
        check_buckets(job.spec, has_bucket)
        programs = _find_programs(job.spec, attempt_engine.images)
        layout = _layout(job.spec, programs.contained, attempt_engine.traits)
        layouts = () if layout is None else (layout,)  # a plugin's engine may not accept a layout
        view = attempt_engine.engine.sight(attempt_engine.key, shape_of(job.spec), *layouts)
        buckets = _find_buckets(view, job.spec, attempt_engine)
        spec, mount_notes = with_real_paths(job.spec, buckets, has_bucket, programs.contained)
        nodes = self._nodes(seats)
        work = attempt_engine.server_path(view.work)
        python = programs.stand_ins[Role.PRIMARY].python
        environment = environment_of(spec, Source(folder=work), python, self._buckets, work)
        inputs = _SiteInputs(programs, layout, view, buckets, nodes, environment)
        site = self._site(job, spec, attempt_engine, inputs)
        notes = (
            *job.notes,
            *(notes_of(job.spec, attempt_engine.images) if self._engines.are_several else ()),
            *mount_notes,
            *_network_notes(layout, attempt_engine.traits),
            *placing_notes(spec, seats, nodes),
        )
        return spec, replace(site, notes=notes)

    def _make_files(self, spec: JobSpec, site: LaunchSite, attempt_engine: _AttemptEngine) -> None:
        """Make the files of a composed plan: folders, the trainer library, the reducers' secret.

        Raises OSError.
        """
        make_all(_folders(spec, self._buckets), FOLDER_MODE)
        if not attempt_engine.traits.has_own_work_folders:
            make_all([PathBeneath(attempt_engine.server_path(site.cwd or ""))], FOLDER_MODE)
        self._program_sites.show_library(site.programs, attempt_engine.traits)
        if site.token_file is not None:
            is_public = bool(site.in_containers)
            make_secret(attempt_engine.server_path(site.token_file), is_public=is_public)

    def _site(
        self, job: _LaunchedJob, spec: JobSpec, attempt_engine: _AttemptEngine, inputs: _SiteInputs
    ) -> LaunchSite:
        """Describe where the attempt will run, without the notes for its log."""
        view, programs = inputs.view, inputs.programs
        project, number = self._store.project(job.project)
        work = attempt_engine.server_path(view.work)
        paths = _ReplicaPaths(((self._buckets.root, inputs.buckets.root), (work, Path(view.work))))
        gateway = self._find_gateway(spec, inputs, attempt_engine)
        is_uri = gateway is not None and self._gs_paths is GsPaths.URI
        path_of = partial(_path_of, buckets=inputs.buckets)
        result_buckets = {Path(folder.root) for folder in _folders(spec, self._buckets)}
        pythons = dict.fromkeys(stand_in.python for stand_in in programs.stand_ins.values())
        return LaunchSite(
            project=project,
            project_number=number,
            addresses=view.addresses,
            environment=paths.environment(inputs.environment),
            programs=self._program_sites.find(
                spec, programs.stand_ins, attempt_engine.traits, attempt_engine.images
            ),
            entrypoints=entry_points(programs.stand_ins),
            images=images_by_role(programs.stand_ins),
            in_containers=programs.contained,
            map_uri=keep_uri if is_uri else path_of,
            path_of=path_of,
            buckets=str(inputs.buckets.root),
            cwd=view.work,
            gateway=gateway,
            layout=inputs.layout,
            has_names=True,
            metric_file=f"{view.metrics}/{METRIC_FILE}",
            token_file=secret_path(spec, view.exchange),
            earlier=view.earlier,
            emulated=list_emulated(inputs.nodes),
            limits=exact_limits(spec, inputs.nodes),
            binds=paths.binds(mounted(job.project, self._buckets, self._store, result_buckets)),
            reads=(self._program_sites.library(attempt_engine.traits), *pythons),
            shown=(gateway.folder,) if gateway else (),
            owner=Owner(project=job.project, number=job.find_owner_number(job.project)),
            server_ports=self._server_ports(),
            traceparent=self._trace_of(attempt_engine.key),
            warnings=cpu_warnings(job.demand, inputs.nodes),
        )

    def _find_gateway(
        self, spec: JobSpec, inputs: _SiteInputs, attempt_engine: _AttemptEngine
    ) -> GatewaySight | None:
        """Return the view of the gateway; None on other machines, where callers are unknown."""
        if attempt_engine.engine is not self._engines.nearest:
            return None
        contained, layout = inputs.programs.contained, inputs.layout
        return find_gateway(
            spec, contained, attempt_engine.traits, layout, self._open_gateway, self._proxies
        )

    def _nodes(self, seats: Sequence[Seat]) -> NodeOfReplica:
        if not seats:
            return {}  # an engine's queue: read no nodes, which may be thousands
        nodes = {(node.engine, node.name): node for node in self._store.fleet()}
        first = self._engines.first
        at = {(seat.role, seat.index): (seat.engine or first, seat.node) for seat in seats}
        return {replica: nodes[node] for replica, node in at.items() if node in nodes}


def _find_programs(spec: JobSpec, images: Images) -> _Programs:
    """Find the programs again: the configuration may have changed.  Raises EngineFault."""
    by_role = stand_ins(spec, images)
    if None in by_role.values():
        raise EngineFault(
            "the server's configuration no longer has a local environment for the job's image; "
            f"add one to the [[image]] tables; and {images.no_containers}"
        )
    return _Programs(
        {role: stand_in for role, stand_in in by_role.items() if stand_in}, in_containers(by_role)
    )


def _find_buckets(view: FilesystemView, spec: JobSpec, attempt_engine: _AttemptEngine) -> Buckets:
    """Return the buckets as replicas see them.  Raises EngineFault if they see none it needs."""
    if not view.buckets and (names := sorted(named(spec))):
        engine = attempt_engine.name
        message = f"jobs of the engine {engine} see no buckets, and this job names {names[0]}"
        raise EngineFault(
            f"{message}; set `buckets` in the table of the engine to a folder of its nodes"
        )
    return Buckets(root=Path(view.buckets))


def _layout(spec: JobSpec, contained: Collection[Role], traits: Traits) -> NetworkLayout | None:
    """Return how replicas share a network of their own; None for the network of the machine.

    Containers of docker and podman get their network from that program.
    """
    if not traits.has_networks or has_daemon(contained, traits):
        return None
    return layout_of(spec)


def _network_notes(layout: NetworkLayout | None, traits: Traits) -> Iterator[str]:
    if traits.has_networks and layout is None and traits.containers.runtime:
        name = traits.containers.runtime.name
        yield f"network: {name} makes the network of its containers, and this job has no other."
    elif layout is not None:
        yield f"network: of its own, one namespace for {_NAMESPACE_OF[layout]}"


def _path_of(directory: str, buckets: Buckets) -> str:
    return str(buckets.path_of(directory)) if directory.startswith(SCHEME) else directory


def _folders(spec: JobSpec, buckets: Buckets) -> Iterator[PathBeneath]:
    """Yield the folders for the job's results."""
    trial = (spec.trial.trial_id,) if spec.trial else ()
    if spec.job_dir and spec.job_dir.startswith(SCHEME):
        yield _resolve(buckets, spec.job_dir, trial)
    if spec.base_output_dir and spec.base_output_dir.startswith(SCHEME):
        base = _resolve(buckets, spec.base_output_dir, trial)
        yield from (base, *(base.below(name) for name in AIP_FOLDERS))


def _resolve(buckets: Buckets, uri: str, parts: Sequence[str]) -> PathBeneath:
    path = PathBeneath(*buckets.place_of(uri))
    for part in parts:
        path = path.below(part)
    return path
