"""Describes a job for the planner: its training hosts, its helper hosts and their links."""

from dataclasses import dataclass, field

from trainshed.catalog.catalog import Catalog
from trainshed.catalog.machines import recommended_reducer
from trainshed.model.job import JobSpec, ReplicaGroup
from trainshed.model.roles import Role
from trainshed.planning.host_kinds import CPU, host_type_of, kind_of
from trainshed.planning.layouts import HostType, Layout
from trainshed.planning.plan_request import PlanRequest
from trainshed.planning.prices import Machines, paid_for
from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.prediction import NoPrediction

_TRAINS = (Role.PRIMARY, Role.WORKER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Helpers:
    """Machines that help the workers: reducers or parameter servers."""

    machine_type: str = ""
    gbps: float = 0.0
    count: int = 0
    named: str = ""
    """The field of the job's file that has the count."""

    def machines(self, count: int) -> tuple[Machines, ...]:
        """Return ``count`` of these machines, for prices."""
        return (Machines(count=count, machine_type=self.machine_type),) if count else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """A job by its file, or by its calibration."""

    host_type: HostType
    hosts: int = 0
    """0 if no file gives the count."""
    mixed: tuple[tuple[HostKind, int], ...] = ()
    """The kinds and counts of its hosts if they differ; ``host_type`` is the first kind."""
    reducers: Helpers
    servers: Helpers = field(default_factory=Helpers)
    others: tuple[HostType, ...] = ()
    """Other hosts to compare."""
    paid: tuple[Machines, ...] = ()
    """Other machines to pay for: an evaluator."""

    @property
    def host(self) -> HostKind:
        """The kind of its hosts."""
        return self.host_type.host

    @property
    def accelerators(self) -> int:
        """The accelerators of all its hosts; 0 if no file gives the count."""
        if self.mixed:
            return sum(kind.per_host * count for kind, count in self.mixed)
        return self.hosts * self.host.per_host

    @property
    def layout(self) -> Layout | None:
        """Its own hosts; None if no file gives their count, or if they differ."""
        if self.mixed or not self.hosts:
            return None
        return Layout(host=self.host, accelerators=self.accelerators)

    def global_batch(self, calibration: Calibration) -> float:
        """Return the samples in a step; without a file, in a step of the smallest run."""
        counts = [run.accelerators for run in calibration.runs] or [1]
        accelerators = self.accelerators or min(counts)
        return accelerators * calibration.training.batch_per_accelerator

    def server_count(self, request: PlanRequest) -> int:
        """Return the requested parameter servers, else the job's."""
        return self.servers.count if request.servers is None else request.servers


def trainers_of(spec: JobSpec) -> list[ReplicaGroup]:
    """Return the groups that train: those with accelerators, or all if none has any."""
    groups = _trainers(spec)
    return [group for group in groups if group.accelerator] or groups


def _trainers(spec: JobSpec) -> list[ReplicaGroup]:
    groups = (spec.group(role) for role in _TRAINS)
    return [group for group in groups if group and group.count]


def planned_job(spec: JobSpec, catalog: Catalog) -> PlannedJob | NoPrediction:
    """Return the planned job of an expanded spec with machines, or why there is none."""
    workers = [group for group in trainers_of(spec) if group.machine_type]
    kinds = [kind_of(group, catalog) for group in workers]
    if not kinds:
        return _refused("no training host is named", "a machine type")
    different = list(dict.fromkeys(kinds))
    if len({kind.accelerator == CPU for kind in different}) > 1:
        names = " and ".join(kind.machine for kind in different)
        return _refused(
            f"the training hosts differ: {names}",
            "one machine type with the same accelerators for all of them",
        )
    is_mixed = len(different) > 1
    mixed = [(kind, group.count) for kind, group in zip(kinds, workers, strict=True)]
    evaluator = spec.group(Role.EVALUATOR)
    other_trainers = [group for group in _trainers(spec) if group not in workers]
    return PlannedJob(
        host_type=host_type_of(kinds[0], catalog),
        mixed=tuple(mixed) if is_mixed else (),
        others=tuple(host_type_of(kind, catalog) for kind in different[1:]),
        hosts=sum(group.count for group in workers),
        reducers=_helpers(spec.group(Role.REDUCER), recommended_reducer(), catalog),
        servers=_helpers(spec.group(Role.PARAMETER_SERVER), "", catalog),
        paid=tuple(paid_for(group) for group in (*other_trainers, evaluator) if group),
    )


def _refused(message: str, accepted: str) -> NoPrediction:
    return NoPrediction(field="machineType", message=message, accepted=accepted)


def _helpers(group: ReplicaGroup | None, usual: str, catalog: Catalog) -> Helpers:
    machine_type = (group.machine_type if group else None) or usual
    machine = catalog.known_machines.get(machine_type)
    gbps = catalog.egress_gbps(machine, None, 0) if machine else None
    return Helpers(machine_type=machine_type, gbps=gbps or 0.0, count=group.count if group else 0)
