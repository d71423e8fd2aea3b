"""Reads the job file of a plan as ``validate`` does, and machine types of its catalog."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

from trainshed.admission import equipped
from trainshed.admission.context import RuleContext, Scope
from trainshed.admission.rules.regions import region_exists
from trainshed.catalog.catalog import Catalog
from trainshed.catalog.machines import MachineType
from trainshed.catalog.open import catalog_for
from trainshed.catalog.software import prebuilt_image
from trainshed.model.faults import Fault, Field, FieldPath, UsageFault
from trainshed.model.job import JobSpec
from trainshed.model.roles import Dialect, Role
from trainshed.model.texts import join_or
from trainshed.planning.host_kinds import CPU, host_kind, host_type_of
from trainshed.planning.layouts import HostType
from trainshed.planning.planned_jobs import PlannedJob, planned_job, trainers_of
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.prediction import NoPrediction
from trainshed.planning.stack import module_of
from trainshed.service.jobs.judging import JudgedDocument, Rulebook, judge
from trainshed.service.jobs.merging import merge_any
from trainshed.workbench.documents import read_one
from trainshed.workbench.plan_inputs import NotPlannable

#: Rules that a plan checks; ``validate`` checks the others, too.
_IMPOSSIBLE: Final = frozenset(
    {
        "region-unknown",
        "accelerator-count",
        "accelerator-count-fixed",
        "not-enough-vcpus",
        "not-enough-memory",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """The parts of a job file that a plan needs."""

    job: PlannedJob
    catalog: Catalog
    region: str | None
    framework: str
    """The framework of a prebuilt image; empty if unknown: packages may add any."""
    module: str
    """The Python module of its trainers; empty if no field names one."""


def read_job(path: str, rulebook: Rulebook, region: str | None) -> JobFile:
    """Read the job of a file.  Raises UsageFault, Fault for an invalid job, NotPlannable."""
    flags = {"region": region} if region else {}
    judged = judge(merge_any(read_one(path).content, flags, source=path), rulebook)
    if judged.misread:
        raise Fault(judged.violations)
    question = judged.question
    spec = equipped(question) if question else None
    workers = trainers_of(spec) if spec else []
    is_unknown = any(question and question.machine(group) is None for group in workers)
    if question is None or spec is None or not workers or (is_unknown and judged.violations):
        raise Fault(judged.violations)
    if impossible := [
        violation for violation in judged.violations if violation.rule in _IMPOSSIBLE
    ]:
        raise Fault(impossible)
    job = planned_job(spec, question.catalog)
    if isinstance(job, NoPrediction):
        raise NotPlannable(job)
    return JobFile(
        job=replace(job, servers=replace(job.servers, named=_servers_field(judged, question))),
        catalog=question.catalog,
        region=region or question.spec.region,
        framework=_framework(question),
        module=module_of(question.spec),
    )


def _servers_field(judged: JudgedDocument, question: RuleContext) -> str:
    """Return the field of the file that gives the job parameter servers, which may be a tier."""
    if question.is_tier:
        return judged.say(FieldPath(Field.SCALE_TIER))
    return judged.say(FieldPath(Field.COUNT, Role.PARAMETER_SERVER))


def _framework(question: RuleContext) -> str:
    primary = question.spec.group(Role.PRIMARY)
    uri = primary.program.image_uri if primary and primary.program else None
    image = prebuilt_image(uri) if uri else None
    return image.framework if image else ""


def newest_catalog(rulebook: Rulebook, region: str | None) -> Catalog:
    """Open the catalog for a plan without a job file.  Raises Fault for an unknown region."""
    catalog = catalog_for(
        Dialect.AIPLATFORM_V1, rulebook.edition, rulebook.overlays, rulebook.zone_snapshot
    )
    spec = JobSpec(dialect=Dialect.AIPLATFORM_V1, region=region)
    context = RuleContext(
        submitted_spec=spec, spec=spec, catalog=catalog, today=date.max, scope=Scope.MACHINES
    )
    unknown = region_exists(context) if region else ()
    if violations := [replace(violation, field="--region") for violation in unknown]:
        raise Fault(violations)
    return catalog


def host_types_of(names: Sequence[str], job: PlannedJob, catalog: Catalog) -> tuple[HostType, ...]:
    """Return hosts of other machine types, with their own accelerators or the job's.

    Raises UsageFault for an unknown type, or one that cannot have the accelerators.
    """
    return tuple(
        host_type_of(_resolve_kind(name, job, catalog), catalog)
        for name in names
        if name != job.host.machine_type
    )


def _resolve_kind(name: str, job: PlannedJob, catalog: Catalog) -> HostKind:
    machine = catalog.known_machines.get(name)
    if machine is None:
        near = difflib.get_close_matches(name, catalog.machines, n=5, cutoff=0.4)
        raise UsageFault(
            f"--machine-types: edition {catalog.edition.id} knows no machine type {name} "
            f"(accepted: {join_or(near or catalog.machines)})"
        )
    devices = (CPU, 1)
    if machine.bundled:
        devices = (machine.bundled.type, machine.bundled.count)
    elif job.host.accelerator != CPU:
        devices = job.host.accelerator, _attached_count(machine, job.host, catalog)
    return host_kind(catalog, name, devices)


def _attached_count(machine: MachineType, host: HostKind, catalog: Catalog) -> int:
    """Return the job's count of accelerators, else the next that the machine can have."""
    accelerator = catalog.accelerator(host.accelerator)
    counts = catalog.fitting_counts(machine, accelerator) if accelerator else ()
    if not counts:
        raise UsageFault(f"--machine-types: {machine.name} cannot have any {host.accelerator}")
    return next((count for count in counts if count >= host.per_host), max(counts))
