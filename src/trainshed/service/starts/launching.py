"""Makes the launch plan of an attempt, at the moment when its places are known.

Thinking is ``launch.compose``'s.  The engine says what replicas see of its nodes: addresses,
folders, where gs:// and /gcs are.  The table of images says which interpreter stands in for one.
"""

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.engines.base import Engine, FilesystemView, Traits
from trainshed.engines.container_runtime import CHILDREN_OF_CLIENT
from trainshed.engines.several import Engines, engine_of
from trainshed.files.beneath import PathBeneath
from trainshed.launch.commands import AIP_FOLDERS, in_environment, installed_here
from trainshed.launch.compose import compose
from trainshed.launch.context import program_of, unchanged
from trainshed.launch.directories import FOLDER, under
from trainshed.launch.network import layout_of, names_of, network_of
from trainshed.launch.variables import (
    AIP_CHECKPOINT_DIR,
    AIP_TENSORBOARD_LOG_DIR,
    CLOUD_ML_HP_METRIC_FILE,
)
from trainshed.model import trainer_contract
from trainshed.model.attempt import AttemptKey, MetricsPlan
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.faults import EngineFault, TransientFault, UsageFault
from trainshed.model.gateway import LABEL, OFF, GatewaySight
from trainshed.model.job import JobSpec
from trainshed.model.launch_plan import (
    PYTHON_WORD,
    Environment,
    LaunchPlan,
    Owner,
    ReplicaPlan,
)
from trainshed.model.network import NetworkLayout
from trainshed.model.resources import Claim, Seat, SeatsOrClaim
from trainshed.model.roles import Role
from trainshed.service.gateway.places import (
    METADATA_NAMES,
    NO_GATEWAY,
    NO_PROXIES,
    OpenGateway,
    sight_in_network,
    sight_of,
)
from trainshed.service.starts.bucket_uris import (
    buckets_of_project,
    check_buckets,
    mounted,
    named,
    with_real_paths,
)
from trainshed.service.starts.images import Images, ImagesByEngine, StandIn
from trainshed.service.starts.interpreters import TrainerLibrary
from trainshed.service.starts.placing import (
    NodeOfReplica,
    as_placed,
    cpu_warnings,
    limited,
    placing_notes,
)
from trainshed.service.starts.programs import Source, environment_of
from trainshed.service.starts.reducers import started_here, with_token
from trainshed.service.starts.shape import shape_of
from trainshed.service.starts.stand_ins import entry_points, in_containers, notes_of, stand_ins
from trainshed.storage.buckets import FOLDER_MODE, SCHEME, Buckets, GsPaths
from trainshed.storage.folders import make_all
from trainshed.store.opening import Store
from trainshed.store.records import JobRecord

#: The primary's file in the folder of metric files.
METRIC_FILE = "output.metrics"

_PYTHONPATH: Final = "PYTHONPATH"
#: Where the library has what switches its hooks on.
_HOOKS: Final = "trainshed_trainer/hooks/site"
#: Jobs of which it is remembered whether their images can be run.
_REMEMBERED_MAX: Final = 4096

_NAMESPACE_OF: Final = {
    NetworkLayout.JOB: "all replicas",
    NetworkLayout.REPLICA: "each replica",
}

#: Where nobody listens in a container whose network is its own.
_NOBODY = "127.0.0.1"


class _There(NamedTuple):
    """Where an attempt is to run."""

    key: AttemptKey
    name: str
    engine: Engine
    traits: Traits
    images: Images

    def here(self, path: str) -> Path:
        """Where the server finds a folder that replicas see under a path."""
        return self.traits.here(path) if self.traits.here else Path(path)


class _Shown(NamedTuple):
    """How replicas see what lies in folders of the server: pairs of them."""

    pairs: tuple[tuple[Path, Path], ...]

    def path(self, path: str) -> str:
        """A path of the server's as replicas see it."""
        for ours, theirs in self.pairs:
            if ours != theirs and Path(path).is_relative_to(ours):
                return str(theirs / Path(path).relative_to(ours))
        return path

    def environment(self, found: Environment) -> Environment:
        """What is installed, by paths there."""
        packages = tuple(map(self.path, found.packages))
        return replace(found, packages=packages, buckets=str(self.pairs[0][1]))

    def binds(self, found: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Folders and where they are mounted."""
        return tuple((self.path(folder), mount) for folder, mount in found)


class Launching:
    """Called by the controller once the places of an attempt are committed."""

    def __init__(  # noqa: PLR0913 - what a plan is made of, passed by name
        self,
        store: Store,
        engine: Engine,
        *,
        images: ImagesByEngine,
        buckets: Buckets,
        library: Path,
        environ: Mapping[str, str] = os.environ,
        open_gateway: OpenGateway = NO_GATEWAY,
        gs_paths: GsPaths = GsPaths.URI,
        proxies: Mapping[str, str] = NO_PROXIES,
        server_ports: Callable[[], tuple[int, ...]] = tuple,
    ) -> None:
        """``buckets`` are those of the server; replicas may see them elsewhere.

        ``library`` is the folder in which the trainer library is shown; ``environ`` is the server's
        environment.  ``gs_paths`` is what programs get as their directories where they have a
        gateway; without one they get paths.  ``proxies`` are the server's variables that jobs get.
        ``server_ports`` gives the TCP ports at which the server listens.
        """
        self._store = store
        self._engines = Engines.of(engine)
        self._images = images
        self._startable = lru_cache(_REMEMBERED_MAX)(self._why_not_startable)
        self._buckets = buckets
        self._environ = environ
        self._library = TrainerLibrary(library)
        self._open_gateway = open_gateway
        self._gs_paths = gs_paths
        self._proxies = proxies
        self._server_ports = server_ports

    def __call__(self, record: JobRecord, attempt: int, place: SeatsOrClaim) -> LaunchPlan:
        """The plan of an attempt; the folders it names exist then, and its ports are free.

        Raises Fault for a job that cannot be started at all, EngineFault for a package that is not
        there, a folder that cannot be written to, or no free port.
        """
        there = self._there(AttemptKey(record.uid, attempt), place)
        try:
            return self._plan(record, attempt, place, there)
        except UsageFault as fault:
            raise EngineFault(str(fault)) from fault

    def startable(self, uid: int, engine: str) -> Explanation | None:
        """Why the programs of a job cannot be started by an engine; None: they can."""
        return self._startable(uid, engine)

    def _why_not_startable(self, uid: int, engine: str) -> Explanation | None:
        spec, _ = self._store.to_launch(uid)
        images = self._images.of(engine)
        found = stand_ins(spec, images)
        lacking = {role for role, stand_in in found.items() if stand_in is None}
        gone = [program_of(spec, group) for group in spec.groups if group.role in lacking]
        uris = dict.fromkeys(each.image_uri for each in gone if each and each.image_uri)
        if not uris:
            return None
        message = f"nothing there can run the image {', '.join(uris)}: no environment stands in for"
        return Explanation(reason=Reason.IMAGE, message=f"{message} it, and {images.no_containers}")

    def _there(self, key: AttemptKey, place: SeatsOrClaim) -> _There:
        """Raises OSError where this server runs without the engine of the place."""
        name = engine_of(place) or self._engines.first
        engine = self._engines.serving(name)
        return _There(key, name, engine, engine.traits, self._images.of(name))

    def _plan(
        self, record: JobRecord, attempt: int, place: SeatsOrClaim, there: _There
    ) -> LaunchPlan:
        seats = () if isinstance(place, Claim) else place
        asked, asked_notes = self._store.to_launch(record.uid)
        has_bucket = buckets_of_project(self._store, record.job.project)
        check_buckets(asked, has_bucket)
        found = _found_stand_ins(asked, there.images)
        contained = in_containers(found)
        layout = _layout(asked, contained, there.traits)
        layouts = () if layout is None else (layout,)  # engines of others may take none
        sight = there.engine.sight(there.key, shape_of(asked), *layouts)
        seen = _buckets_there(sight, asked, there)
        spec, mount_notes = with_real_paths(asked, seen, has_bucket, contained)
        work = there.here(sight.work)
        shown = _Shown(((self._buckets.root, seen.root), (work, Path(sight.work))))
        environment = _environment(spec, found[Role.PRIMARY], self._buckets, work)
        make_all([PathBeneath(work), *_folders(spec, self._buckets)], FOLDER_MODE)
        project, number = self._store.project(record.job.project)
        gateway = self._gateway_of(asked, contained, there, layout)
        plan = compose(
            spec,
            job_id=spec.trial.study_job_id if spec.trial else record.job.job_id,
            trial=spec.trial,
            metric_file=f"{sight.metrics}/{METRIC_FILE}",
            attempt=attempt,
            addresses=sight.addresses,
            environment=shown.environment(environment),
            project=project,
            project_number=number,
            map_uri=unchanged if self._keeps_uris(gateway) else partial(_path_of, buckets=seen),
            entrypoints=entry_points(found),
            in_containers=contained,
            gateway=gateway,
            buckets=str(seen.root),
            cwd=sight.work,
        )
        nodes = self._nodes(seats)
        replicas = limited(as_placed(plan.replicas, nodes), spec, nodes)
        notes = (
            *asked_notes,
            *(notes_of(asked, there.images) if self._engines.are_several else ()),
            *mount_notes,
            *_network_notes(layout, there.traits),
            *placing_notes(plan.replicas, seats, nodes),
            *_unseen(plan, contained),
            *plan.notes,
        )
        plan = replace(
            plan,
            environment=installed_here(plan),
            replicas=tuple(self._started(replica, found, there) for replica in replicas),
            notes=tuple(dict.fromkeys(notes)),
            warnings=cpu_warnings(nodes, self._store.demand(record.uid), nodes),
            hosts=(*names_of(spec, plan, sight.addresses), *(gateway.names if gateway else ())),
            binds=shown.binds(mounted(record.job.project, self._buckets, self._store)),
            checkpoints=tuple(_checkpoints(spec, attempt, sight, seen)),
            metrics=_metrics(spec, plan, seen, sight.metrics),
            owner=Owner(
                project=record.job.project, number=self._store.owner_number(record.job.project)
            ),
            reads=(
                there.traits.library or str(self._library.folder),
                *dict.fromkeys(each.python for each in found.values()),
            ),
            shown=(gateway.folder,) if gateway else (),
            network=network_of(plan, sight.addresses, layout, gateway),
            server_ports=self._server_ports(),
        )
        return with_token(plan, there.here(sight.exchange), sight.exchange)

    def _gateway_of(
        self,
        spec: JobSpec,
        contained: Collection[Role],
        there: _There,
        layout: NetworkLayout | None,
    ) -> GatewaySight | None:
        """What the job's replicas see of it; None for a job that is to have none.

        It is one machine's: an engine elsewhere cannot tell who calls.  Raises TransientFault
        while another program has its port, for a job with the machine's network.
        """
        if there.traits is not self._engines.traits:
            return None
        if spec.labels.get(LABEL) == OFF or (place := self._open_gateway()) is None:
            return None
        if place.refusal and layout is None:
            raise TransientFault(place.refusal)
        if _is_cut_off(spec, contained, there.traits):
            bridge = there.traits.bridge
            if bridge is None or bridge not in place.also:
                return None
            sight = sight_of(place._replace(host=bridge), proxies=self._proxies)
            return sight._replace(closed=tuple((_NOBODY, name) for name in METADATA_NAMES))
        has_processes = len(contained) < sum(1 for group in spec.groups if group.count)
        has_names = not has_processes or there.traits.has_names
        see = sight_of if layout is None else sight_in_network
        return see(place, has_names=has_names, proxies=self._proxies)

    def _keeps_uris(self, gateway: GatewaySight | None) -> bool:
        return gateway is not None and self._gs_paths is GsPaths.URI

    def _nodes(self, seats: Sequence[Seat]) -> NodeOfReplica:
        nodes = {(node.engine, node.name): node for node in self._store.fleet()}
        first = self._engines.first
        at = {(each.role, each.index): (each.engine or first, each.node) for each in seats}
        return {replica: nodes[node] for replica, node in at.items() if node in nodes}

    def _started(
        self, replica: ReplicaPlan, found: Mapping[Role, StandIn], there: _There
    ) -> ReplicaPlan:
        """A replica's command with its own interpreter, whose programs are found before others."""
        if replica.role is Role.REDUCER and there.traits.library:
            replica = replace(replica, env={**replica.env, _PYTHONPATH: there.traits.library})
        if replica.container or replica.role is Role.REDUCER:
            return started_here(replica, there.traits.python)
        stand_in = found[replica.role]
        first, *rest = in_environment(replica.argv)
        is_other = stand_in.python != found[Role.PRIMARY].python
        first = stand_in.python if first == PYTHON_WORD and is_other else first
        env = {"PATH": self._path(stand_in.python, there), **replica.env}
        env |= self._library_variables(stand_in.python, replica, there)
        return replace(replica, argv=(first, *rest), env=env, python=stand_in.python)

    def _library_variables(
        self, python: str, replica: ReplicaPlan, there: _There
    ) -> Mapping[str, str]:
        """What lets a program find the trainer library, and hooks where it asks for them."""
        found = self._with_library(python, replica, there)
        if trainer_contract.STEPS not in replica.env:
            return found
        before = found.get(_PYTHONPATH) or replica.env.get(_PYTHONPATH)
        root = there.traits.library or str(self._library.shown())
        paths = (f"{root}/{_HOOKS}", before)
        return {**found, _PYTHONPATH: os.pathsep.join(filter(None, paths))}

    def _with_library(self, python: str, replica: ReplicaPlan, there: _There) -> Mapping[str, str]:
        if there.traits.library is None:
            return self._library.variables(python, replica.env, self._environ)
        if there.images.has_trainer(python):
            return {}
        parts = (replica.env.get(_PYTHONPATH), there.traits.library)
        return {_PYTHONPATH: os.pathsep.join(filter(None, parts))}

    def _path(self, python: str, there: _There) -> str:
        """PATH of a program: the server's own is nothing to another machine."""
        if there.traits.path is not None:
            binaries = str(Path(python).parent) if "/" in python else ""
            return os.pathsep.join(filter(None, [binaries, there.traits.path]))
        binaries = str(Path(shutil.which(python) or python).parent)
        return os.pathsep.join(filter(None, [binaries, self._environ.get("PATH", "")]))


def _unseen(plan: LaunchPlan, contained: Collection[Role]) -> Iterator[str]:
    """Hooks are files of this server's: a program in its own image does not see them."""
    asks = any(trainer_contract.STEPS in replica.env for replica in plan.replicas)
    if asks and Role.PRIMARY in contained:
        yield (
            "No hooks see the steps of a program in its own image; it tells them by "
            "trainshed_trainer.progress(step), where its image has the trainer library."
        )


def _found_stand_ins(spec: JobSpec, images: Images) -> dict[Role, StandIn]:
    """The configuration may have changed since the job was submitted.  Raises EngineFault."""
    found = stand_ins(spec, images)
    gone = [role for role, stand_in in found.items() if stand_in is None]
    if gone:
        message = "the server's configuration has no local environment for the job's image any "
        message += f"more, see the [[image]] tables; and {images.no_containers}"
        raise EngineFault(message)
    return {role: stand_in for role, stand_in in found.items() if stand_in}


def _buckets_there(sight: FilesystemView, spec: JobSpec, there: _There) -> Buckets:
    """The buckets as replicas see them.  Raises EngineFault for a job that needs what is not."""
    if not sight.buckets and (wanted := sorted(named(spec))):
        message = f"jobs of the engine {there.name} see no buckets, and this one names {wanted[0]}"
        raise EngineFault(f"{message}; accepted: `buckets` in the engine's table, a folder there")
    return Buckets(root=Path(sight.buckets))


def _layout(spec: JobSpec, contained: Collection[Role], traits: Traits) -> NetworkLayout | None:
    """How replicas share a network of their own; None: they have the network of the machine.

    Containers of docker and podman get their network from that program.
    """
    if not traits.has_networks or _are_of_daemon(contained, traits):
        return None
    return layout_of(spec)


def _network_notes(layout: NetworkLayout | None, traits: Traits) -> Iterator[str]:
    if traits.has_networks and layout is None and traits.containers.runtime:
        name = traits.containers.runtime.name
        yield f"network: {name} makes the network of its containers, and this job has no other."
    elif layout is not None:
        yield f"network: of its own, one namespace for {_NAMESPACE_OF[layout]}"


def _are_of_daemon(contained: Collection[Role], traits: Traits) -> bool:
    runtime = traits.containers.runtime
    return bool(contained and runtime and runtime.name not in CHILDREN_OF_CLIENT)


def _is_cut_off(spec: JobSpec, contained: Collection[Role], traits: Traits) -> bool:
    """Whether it runs in a container whose network has no loopback of the machine's."""
    runtime = traits.containers.runtime
    return bool(
        _are_of_daemon(contained, traits)
        and runtime is not None
        and runtime.has_walls
        and spec.replica_count == 1
    )


def _environment(spec: JobSpec, stand_in: StandIn, buckets: Buckets, work: Path) -> Environment:
    return environment_of(spec, Source(folder=work), stand_in.python, buckets, work)


def _path_of(place: str, buckets: Buckets) -> str:
    return str(buckets.path_of(place)) if place.startswith(SCHEME) else place


def _results(spec: JobSpec, base: str | None, buckets: Buckets) -> str | None:
    """The folder below a gs:// base that is the job's own: a trial has one for itself."""
    if not base:
        return None
    return under(_path_of(base, buckets), *((spec.trial.trial_id,) if spec.trial else ()))


def _folders(spec: JobSpec, buckets: Buckets) -> Iterator[PathBeneath]:
    """Those that the job's results go to."""
    trial = (spec.trial.trial_id,) if spec.trial else ()
    if spec.job_dir and spec.job_dir.startswith(SCHEME):
        yield _below(buckets, spec.job_dir, trial)
    if spec.base_output_dir and spec.base_output_dir.startswith(SCHEME):
        base = _below(buckets, spec.base_output_dir, trial)
        yield from (base, *(base.below(name) for name in AIP_FOLDERS))


def _below(buckets: Buckets, uri: str, parts: Iterable[str]) -> PathBeneath:
    place = PathBeneath(*buckets.place_of(uri))
    for part in parts:
        place = place.below(part)
    return place


def _checkpoints(
    spec: JobSpec, attempt: int, sight: FilesystemView, buckets: Buckets
) -> Iterator[str]:
    """Where earlier attempts have left them.

    A program that gets no place may keep them where it starts: the next attempt starts
    elsewhere, and its log is to say what it does not see.
    """
    for work in sight.earlier:
        yield f"{work}/{FOLDER[AIP_CHECKPOINT_DIR]}"
    if attempt > 1 and (job_dir := _results(spec, spec.job_dir, buckets)):
        yield job_dir
    if attempt > 1 and (base := _results(spec, spec.base_output_dir, buckets)):
        yield under(base, FOLDER[AIP_CHECKPOINT_DIR])


def _metrics(spec: JobSpec, plan: LaunchPlan, buckets: Buckets, folder: str) -> MetricsPlan | None:
    """Where a trial's programs report: AI Platform read TensorFlow's summaries too (R19).

    A program may name another file to itself; the supervisor makes and reads none elsewhere.
    """
    if spec.trial is None or spec.study is None:
        return None
    named = filter(None, (each.env.get(CLOUD_ML_HP_METRIC_FILE) for each in plan.replicas))
    ours = (f"{folder}/", f"{buckets.root}/")
    logs = plan.primary.env.get(AIP_TENSORBOARD_LOG_DIR)
    places = [_results(spec, spec.job_dir, buckets), logs and _path_of(logs, buckets)]
    return MetricsPlan(
        files=tuple(name for name in named if os.path.normpath(name).startswith(ours)),
        tags=tuple(metric.metric_id for metric in spec.study.metrics),
        summaries=tuple(place for place in places if place),
    )
