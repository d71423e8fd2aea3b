"""Describes a job for the planner: its training hosts, its helper hosts and their links."""

from trainshed.catalog.catalog import Catalog
from trainshed.catalog.machines import recommended_reducer
from trainshed.model.job import JobSpec, ReplicaGroup
from trainshed.model.roles import Role
from trainshed.planning.clusters_asked import Helpers, PlannedJob
from trainshed.planning.host_kinds import CPU, host_type_of, kind_of
from trainshed.planning.prices import paid_for
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.prediction import NoPrediction

_TRAINS = (Role.PRIMARY, Role.WORKER)


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
        names = " and ".join(map(_words, different))
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


def _words(kind: HostKind) -> str:
    carried = f" with {kind.per_host} {kind.accelerator}" if kind.accelerator != CPU else ""
    return f"{kind.machine_type}{carried}"


def _helpers(group: ReplicaGroup | None, usual: str, catalog: Catalog) -> Helpers:
    machine_type = (group.machine_type if group else None) or usual
    machine = catalog.known_machines.get(machine_type)
    gbps = catalog.egress_gbps(machine, None, 0) if machine else None
    return Helpers(machine_type=machine_type, gbps=gbps or 0.0, count=group.count if group else 0)
