"""Makes the launch plan of an attempt on this machine, at the moment when its places are known.

Thinking is ``launch.compose``'s; here are the things that only the machine can say: ports that are
free, folders that stand for gs:// and /gcs, the interpreter that stands in for the image.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from trainshed.engines.local.attempts.folder import AttemptFolder
from trainshed.launch import names
from trainshed.launch.compose import compose
from trainshed.launch.directories import FOLDER, under
from trainshed.launch.variables import (
    AIP_CHECKPOINT_DIR,
    AIP_TENSORBOARD_LOG_DIR,
    CLOUD_ML_HP_METRIC_FILE,
)
from trainshed.model.faults import EngineFault, UsageFault
from trainshed.model.job import JobSpec
from trainshed.model.launch_plan import Environment, LaunchPlan, MetricsPlan, ReplicaPlan
from trainshed.model.resources import Node, Seat
from trainshed.model.roles import Role
from trainshed.service.bucket_uris import mounted, with_real_paths
from trainshed.service.images import Images, StandIn
from trainshed.service.interpreters import LIBRARY, TrainerLibrary
from trainshed.service.local_run import (
    AIP_FOLDERS,
    HOST,
    in_environment,
    loopback_addresses,
)
from trainshed.service.placing import as_placed, limited, placing_notes
from trainshed.service.programs import Source, environment_of
from trainshed.service.reduction import started_here, with_token
from trainshed.service.stand_ins import entry_points, in_containers, stand_ins
from trainshed.storage.buckets import SCHEME, Buckets
from trainshed.storage.folders import make_all
from trainshed.store.base import StoreBase
from trainshed.store.records import JobRecord

#: The folder of an attempt in which its replicas start.
WORK = "work"
#: The folder of an attempt in which its programs report metrics, and the primary's file there.
METRICS = "hypertune"
METRIC_FILE = "output.metrics"

PYTHON_WORD = "python"


class Launching:
    """Called by the controller once the places of an attempt are committed."""

    def __init__(
        self,
        store: StoreBase,
        *,
        images: Images,
        buckets: Buckets,
        jobs_dir: Path,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """``jobs_dir`` holds a folder for each job; ``environ`` is the server's environment."""
        self._store = store
        self._images = images
        self._buckets = buckets
        self._jobs_dir = jobs_dir
        self._environ = environ
        self._library = TrainerLibrary(jobs_dir.with_name(LIBRARY))

    def __call__(self, record: JobRecord, attempt: int, seats: Sequence[Seat]) -> LaunchPlan:
        """The plan of an attempt; the folders it names exist then, and its ports are free.

        Raises Fault for a job that cannot be started at all, EngineFault for a package that is not
        there, a folder that cannot be written to, or no free port.
        """
        try:
            return self._plan(record, attempt, seats)
        except UsageFault as fault:
            raise EngineFault(str(fault)) from fault

    def _plan(self, record: JobRecord, attempt: int, seats: Sequence[Seat]) -> LaunchPlan:
        asked = self._store.expanded(record.uid)
        found = self._stand_ins(asked)
        contained = in_containers(found)
        spec, mount_notes = with_real_paths(asked, self._buckets, contained)
        home = AttemptFolder(self._jobs_dir / str(record.uid) / str(attempt))
        work = Path(home.path, WORK)
        make_all([work, *self._folders(spec)])
        project, number = self._store.project(record.job.project)
        plan = compose(
            spec,
            job_id=spec.trial.study_job_id if spec.trial else record.job.job_id,
            trial=spec.trial,
            metric_file=str(work.with_name(METRICS) / METRIC_FILE),
            attempt=attempt,
            addresses=loopback_addresses(spec),
            environment=self._environment(spec, found[Role.PRIMARY], work),
            project=project,
            project_number=number,
            map_uri=self._seen,
            entrypoints=entry_points(found),
            in_containers=contained,
            cwd=str(work),
        )
        nodes = self._nodes(seats)
        replicas = limited(as_placed(plan.replicas, seats, nodes), spec, seats, nodes)
        notes = (
            *self._store.notes(record.uid),
            *mount_notes,
            *placing_notes(plan.replicas, seats, nodes),
            *plan.notes,
        )
        plan = replace(
            plan,
            environment=_needed(plan),
            replicas=tuple(self._here(replica, found) for replica in replicas),
            notes=tuple(dict.fromkeys(notes)),
            hosts=tuple(_hosts(spec, plan)),
            binds=mounted(asked, record.job.project, self._buckets, self._store),
            checkpoints=tuple(self._checkpoints(spec, record.uid, attempt)),
            metrics=self._metrics(spec, plan),
        )
        return with_token(plan, Path(home.shared))

    def _metrics(self, spec: JobSpec, plan: LaunchPlan) -> MetricsPlan | None:
        """Where a trial's programs report: AI Platform read TensorFlow's summaries too (R19)."""
        if spec.trial is None or spec.study is None:
            return None
        envs = [replica.env for replica in plan.replicas]
        logs = plan.primary.env.get(AIP_TENSORBOARD_LOG_DIR)
        places = [self._results(spec, spec.job_dir), logs]
        return MetricsPlan(
            files=tuple(filter(None, (env.get(CLOUD_ML_HP_METRIC_FILE) for env in envs))),
            tags=tuple(metric.metric_id for metric in spec.study.metrics),
            summaries=tuple(place for place in places if place),
        )

    def _results(self, spec: JobSpec, base: str | None) -> str | None:
        """The folder below a gs:// base that is the job's own: a trial has one for itself."""
        if not base:
            return None
        return under(self._seen(base), *((spec.trial.trial_id,) if spec.trial else ()))

    def _stand_ins(self, spec: JobSpec) -> dict[Role, StandIn]:
        """The configuration may have changed since the job was submitted.  Raises EngineFault."""
        found = stand_ins(spec, self._images)
        gone = [role for role, stand_in in found.items() if stand_in is None]
        if gone:
            message = "the server's configuration has no local environment for the job's image any "
            message += f"more, see the [[image]] tables; and {self._images.no_containers}"
            raise EngineFault(message)
        return {role: stand_in for role, stand_in in found.items() if stand_in}

    def _environment(self, spec: JobSpec, stand_in: StandIn, work: Path) -> Environment:
        source = Source(folder=work)
        return environment_of(spec, source, stand_in.python, self._buckets, work)

    def _seen(self, place: str) -> str:
        return str(self._buckets.path_of(place)) if place.startswith(SCHEME) else place

    def _folders(self, spec: JobSpec) -> list[Path]:
        """The gs:// folders that the job writes to."""
        found = []
        if spec.job_dir and spec.job_dir.startswith(SCHEME):
            found.append(Path(self._results(spec, spec.job_dir) or ""))
        if spec.base_output_dir and spec.base_output_dir.startswith(SCHEME):
            base = Path(self._results(spec, spec.base_output_dir) or "")
            found += [base, *(base / name for name in AIP_FOLDERS)]
        return found

    def _checkpoints(self, spec: JobSpec, uid: int, attempt: int) -> Iterator[str]:
        """Where earlier attempts have left them.

        A program that is told no place may keep them where it starts: the next attempt starts
        elsewhere, and is to be told what it does not see.
        """
        for earlier in range(1, attempt):
            yield str(self._jobs_dir / str(uid) / str(earlier) / WORK / FOLDER[AIP_CHECKPOINT_DIR])
        if attempt > 1 and (job_dir := self._results(spec, spec.job_dir)):
            yield job_dir
        if attempt > 1 and (base := self._results(spec, spec.base_output_dir)):
            yield under(base, FOLDER[AIP_CHECKPOINT_DIR])

    def _nodes(self, seats: Sequence[Seat]) -> Mapping[str, Node]:
        names = {seat.node for seat in seats}
        return {node.name: node for node in self._store.fleet() if node.name in names}

    def _here(self, replica: ReplicaPlan, found: Mapping[Role, StandIn]) -> ReplicaPlan:
        """A replica's command with its own interpreter, whose programs are found before others."""
        if replica.container or replica.role is Role.REDUCER:
            return started_here(replica)
        stand_in = found[replica.role]
        first, *rest = in_environment(replica.argv)
        is_other = stand_in.python != found[Role.PRIMARY].python
        first = stand_in.python if first == PYTHON_WORD and is_other else first
        env = {"PATH": self._path(stand_in.python), **replica.env}
        env |= self._library.variables(stand_in.python, {**self._environ, **replica.env})
        return replace(replica, argv=(first, *rest), env=env)

    def _path(self, python: str) -> str:
        binaries = Path(shutil.which(python) or python).parent
        return os.pathsep.join(filter(None, [str(binaries), self._environ.get("PATH", "")]))


def _needed(plan: LaunchPlan) -> Environment:
    """What is installed on the machine: nothing where each container installs its own."""
    if all(replica.container or replica.role is Role.REDUCER for replica in plan.replicas):
        return replace(plan.environment, packages=())
    return plan.environment


def _hosts(spec: JobSpec, plan: LaunchPlan) -> Iterator[tuple[str, str]]:
    """The names of the replicas: those that Google gives their hosts, and those of their logs.

    TF_CONFIG and CLUSTER_SPEC have the address itself: a name in them would help only programs that
    do not run here, and would need a mount namespace, which not every machine allows.
    """
    for replica in plan.replicas:
        yield HOST, names.host_name(spec.dialect, plan.job_id, replica.role, replica.index)
        yield HOST, replica.task_name
