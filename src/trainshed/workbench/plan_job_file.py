"""The job file of a plan, read as ``validate`` reads it, and machine types of its catalog."""

from collections.abc import Sequence
from dataclasses import dataclass

from trainshed.admission.context import RuleContext
from trainshed.catalog.catalog import Catalog
from trainshed.catalog.machines import MachineType, recommended_reducer
from trainshed.catalog.software import prebuilt_image
from trainshed.model.faults import Fault, UsageFault
from trainshed.model.job import ReplicaGroup
from trainshed.model.roles import Dialect, Role
from trainshed.planning.clusters_asked import Helpers, PlannedJob
from trainshed.planning.host_kinds import CPU, host_kind
from trainshed.planning.prices import Machines
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.prediction import Refused
from trainshed.service.judging import Rulebook, catalog_for, judge
from trainshed.workbench.documents import read_one
from trainshed.workbench.merging import merge_any
from trainshed.workbench.plan_inputs import NotPlannable


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """A job file, as far as a plan asks."""

    job: PlannedJob
    catalog: Catalog
    region: str | None
    framework: str
    """Of a prebuilt image; empty where nobody knows."""


def read_job(path: str, rulebook: Rulebook, region: str | None) -> JobFile:
    """The job of a file.  Raises UsageFault, Fault for what is no job, NotPlannable."""
    flags = {"region": region} if region else {}
    judged = judge(merge_any(read_one(path).content, flags, source=path), rulebook)
    question = judged.question
    workers = _workers(question) if question else []
    is_unknown = any(question and question.machine(group) is None for group in workers)
    if question is None or not workers or (is_unknown and judged.violations):
        raise Fault(judged.violations)
    return JobFile(
        job=_planned(question),
        catalog=question.catalog,
        region=region or question.spec.region,
        framework=_framework(question),
    )


def _workers(question: RuleContext) -> list[ReplicaGroup]:
    """The hosts that train: those with accelerators, where some have any."""
    groups = _trainers(question)
    return [group for group in groups if question.device(group)] or groups


def _trainers(question: RuleContext) -> list[ReplicaGroup]:
    found = (question.spec.group(role) for role in (Role.PRIMARY, Role.WORKER))
    return [group for group in found if group and group.count and group.machine_type]


def _planned(question: RuleContext) -> PlannedJob:
    workers = _workers(question)
    kinds = [_kind_of(question, group) for group in workers]
    if any(kind != kinds[0] for kind in kinds):
        names = " and ".join(dict.fromkeys(_words(kind) for kind in kinds))
        raise NotPlannable(
            Refused(
                field="machineType",
                message=f"the hosts that train are not alike: {names}",
                accepted="one machine type with the same accelerators for all of them",
            )
        )
    evaluator = question.spec.group(Role.EVALUATOR)
    beside = [group for group in _trainers(question) if group not in workers]
    return PlannedJob(
        host=kinds[0],
        per_host=kinds[0].per_host,
        hosts=sum(group.count for group in workers),
        reducers=_helpers(question, question.spec.group(Role.REDUCER), recommended_reducer()),
        servers=_helpers(question, question.spec.group(Role.PARAMETER_SERVER), ""),
        others=tuple(_paid(question, group) for group in (*beside, evaluator) if group),
    )


def _words(kind: HostKind) -> str:
    carried = f" with {kind.per_host} {kind.accelerator}" if kind.accelerator != CPU else ""
    return f"{kind.machine_type}{carried}"


def _kind_of(question: RuleContext, group: ReplicaGroup) -> HostKind:
    device, machine = question.device(group), question.machine(group)
    name, count = (device.enum_name, device.count) if device else (CPU, 1)
    gbps = question.egress_gbps(group) or 0.0
    return host_kind(question.catalog, group.machine_type or "", machine, (name, count), gbps)


def _helpers(question: RuleContext, group: ReplicaGroup | None, usual: str) -> Helpers:
    machine_type = (group.machine_type if group else None) or usual
    known = question.catalog.known_machines.get(machine_type)
    gbps = question.catalog.egress_gbps(known, None, 0) if known else None
    return Helpers(machine_type=machine_type, gbps=gbps or 0.0, count=group.count if group else 0)


def _paid(question: RuleContext, group: ReplicaGroup) -> Machines:
    device = question.device(group)
    return Machines(
        count=group.count,
        machine_type=group.machine_type or "",
        accelerator=device.enum_name if device else "",
        accelerators=device.count if device else 0,
    )


def _framework(question: RuleContext) -> str:
    primary = question.spec.group(Role.PRIMARY)
    uri = primary.program.image_uri if primary and primary.program else None
    image = prebuilt_image(uri) if uri else None
    return image.framework if image else ""


def newest_catalog(rulebook: Rulebook) -> Catalog:
    """The catalog of a plan without a job file."""
    return catalog_for(
        Dialect.AIPLATFORM_V1, rulebook.edition, rulebook.overlays, rulebook.zone_snapshot
    )


def kinds_of(names: Sequence[str], job: PlannedJob, catalog: Catalog) -> tuple[HostKind, ...]:
    """Hosts of other machine types, with their own accelerators or the job's.  UsageFault."""
    return tuple(_named(name, job, catalog) for name in names)


def _named(name: str, job: PlannedJob, catalog: Catalog) -> HostKind:
    if name == job.host.machine_type:
        return job.host
    machine = catalog.known_machines.get(name)
    if machine is None:
        raise UsageFault(
            f"--machine-types: edition {catalog.edition.id} knows no machine type {name}"
        )
    devices = (CPU, 1)
    if machine.bundled:
        devices = (machine.bundled.type, machine.bundled.count)
    elif job.host.accelerator != CPU:
        devices = (job.host.accelerator, job.host.per_host)
        _check_attached(machine, devices, catalog)
    gbps = catalog.egress_gbps(machine, devices[0], devices[1]) or 0.0
    return host_kind(catalog, name, machine, devices, gbps)


def _check_attached(machine: MachineType, devices: tuple[str, int], catalog: Catalog) -> None:
    name, count = devices
    found = catalog.accelerator(name)
    counts = catalog.fitting_counts(machine, found) if found else ()
    if count not in counts:
        accepted = f"{', '.join(map(str, counts))} fit" if counts else "it carries none of them"
        raise UsageFault(f"--machine-types: {machine.name} cannot have {count} {name}; {accepted}")
