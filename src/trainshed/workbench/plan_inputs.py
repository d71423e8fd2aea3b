"""What a plan is made from: a job file, calibrations, prices; each is read once, as it is then."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainshed.admission.context import RuleContext
from trainshed.catalog.catalog import Catalog
from trainshed.catalog.machines import MachineType
from trainshed.catalog.software import prebuilt_image
from trainshed.model.faults import Fault, UsageFault
from trainshed.model.job import ReplicaGroup
from trainshed.model.roles import Dialect, Role
from trainshed.planning.clusters_asked import Helpers, PlannedJob
from trainshed.planning.prices import Machines, OwnPrices, own_prices
from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.calibration_file import read as read_calibration_text
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.prediction import Refused
from trainshed.service.judging import Rulebook, catalog_for, judge
from trainshed.storage.folders import reason
from trainshed.workbench.documents import read_one
from trainshed.workbench.merging import merge_any
from trainshed.workbench.reduction_hosts import recommended

_BYTES_MAX: Final = 8 << 20
_GIGA: Final = 1e9
_CPU: Final = "CPU"
#: A field of a calibration, where a sentence begins with one.
_FIELD: Final = re.compile(r"(?:training|host|fit|run \d+)(?:\.\w+)*|schema")
#: Names of stacks, as files of calibrations have them, by the framework of a prebuilt image.
_STACKS: Final = {"TensorFlow": ("tensorflow", "keras"), "PyTorch": ("torch",)}


class NotPlannable(Exception):
    """Why there can be no plan: the field that is at fault, and what would be accepted."""

    def __init__(self, refused: Refused) -> None:
        """Keep the refusal."""
        self.refused = refused
        super().__init__(refused.message)


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
    if question is None or not _workers(question):
        raise Fault(judged.violations)
    return JobFile(
        job=_planned(question),
        catalog=question.catalog,
        region=region or question.spec.region,
        framework=_framework(question),
    )


def _workers(question: RuleContext) -> list[ReplicaGroup]:
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
    return PlannedJob(
        host=kinds[0],
        per_host=kinds[0].per_host,
        hosts=sum(group.count for group in workers),
        reducers=_helpers(question, question.spec.group(Role.REDUCER), recommended()),
        servers=_helpers(question, question.spec.group(Role.PARAMETER_SERVER), ""),
        others=(_paid(question, evaluator),) if evaluator else (),
    )


def _words(kind: HostKind) -> str:
    carried = f" with {kind.per_host} {kind.accelerator}" if kind.accelerator != _CPU else ""
    return f"{kind.machine_type}{carried}"


def _kind_of(question: RuleContext, group: ReplicaGroup) -> HostKind:
    device, machine = question.device(group), question.machine(group)
    name, count = (device.enum_name, device.count) if device else (_CPU, 1)
    gbps = question.egress_gbps(group) or 0.0
    return _host(question.catalog, group.machine_type or "", machine, (name, count), gbps)


def _host(
    catalog: Catalog,
    machine_type: str,
    machine: MachineType | None,
    devices: tuple[str, int],
    gbps: float,
) -> HostKind:
    name, count = devices
    found = catalog.accelerator(name)
    return HostKind(
        machine_type=machine_type,
        accelerator=name,
        per_host=count,
        cpus=int(machine.vcpus) if machine and machine.vcpus else 0,
        inside=found.inside if found and count > 1 else "",
        inside_bytes=found.inside_gbytes * _GIGA if found and count > 1 else 0.0,
        network=found.network if found else "tcp",
        network_gbps=gbps,
    )


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


def job_of(calibration: Calibration, catalog: Catalog) -> PlannedJob:
    """What a calibration alone knows of its job."""
    machine = catalog.known_machines.get(recommended())
    gbps = catalog.egress_gbps(machine, None, 0) if machine else None
    host = calibration.host
    return PlannedJob(
        host=host,
        per_host=host.per_host,
        reducers=Helpers(machine_type=recommended(), gbps=gbps or 0.0),
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
    devices = (_CPU, 1)
    if machine.bundled:
        devices = (machine.bundled.type, machine.bundled.count)
    elif job.host.accelerator != _CPU:
        devices = (job.host.accelerator, job.host.per_host)
        _check_attached(machine, devices, catalog)
    gbps = catalog.egress_gbps(machine, devices[0], devices[1]) or 0.0
    return _host(catalog, name, machine, devices, gbps)


def _check_attached(machine: MachineType, devices: tuple[str, int], catalog: Catalog) -> None:
    name, count = devices
    found = catalog.accelerator(name)
    counts = catalog.fitting_counts(machine, found) if found else ()
    if count not in counts:
        accepted = f"{', '.join(map(str, counts))} fit" if counts else "it carries none of them"
        raise UsageFault(f"--machine-types: {machine.name} cannot have {count} {name}; {accepted}")


def read_calibration(path: Path) -> Calibration:
    """A calibration.  Raises UsageFault for no file, NotPlannable for what is no calibration."""
    text = _text(path)
    try:
        return read_calibration_text(text)
    except ValueError as error:
        named = _FIELD.match(str(error))
        raise NotPlannable(
            Refused(
                field=named[0] if named else "calibration",
                message=f"{path}: {error}",
                accepted="a file that trainshed plan calibrate wrote",
            )
        ) from None


def read_prices(path: Path) -> OwnPrices:
    """An owner's prices.  Raises UsageFault."""
    return own_prices(_text(path), str(path))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_BYTES_MAX + 1)
        if len(raw) > _BYTES_MAX:
            raise UsageFault(f"cannot read {path}: it is larger than {_BYTES_MAX} bytes")
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise UsageFault(f"cannot read {path}: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise UsageFault(f"cannot read {path}: byte {error.start} is not UTF-8 text") from error


def check_trainings(calibrations: Sequence[Calibration], found: JobFile | None) -> None:
    """All are of one training, the job's.  Raises NotPlannable."""
    for each in calibrations[1:]:
        for name in ("model", "strategy", "precision", "stack"):
            one, other = getattr(calibrations[0].training, name), getattr(each.training, name)
            if one != other:
                raise _another(f"they are of two trainings: {name} {one or 'none'} and {other}")
    digests = {each.trainer_digest for each in calibrations} - {""}
    if len(digests) > 1:
        raise _another("they are of two trainers: their files differ")
    if found and calibrations:
        _check_stack(calibrations[0], found.framework)


def _check_stack(calibration: Calibration, framework: str) -> None:
    stack = calibration.training.stack.lower()
    names = _STACKS.get(framework, ())
    if stack and names and not any(name in stack for name in names):
        raise _another(
            f"it is of {calibration.training.stack}, and the job's image has {framework}"
        )


def check_hosts(calibrations: Iterable[Calibration], job: PlannedJob) -> tuple[str, ...]:
    """What to mind of calibrations beside a job file's machines."""
    return tuple(
        f"measured on a machine without a name: it stands for {job.host.machine_type} here"
        for each in calibrations
        if not each.host.machine_type and job.host.machine_type
    )[:1]


def _another(message: str) -> NotPlannable:
    accepted = "a calibration of this training: trainshed plan calibrate"
    return NotPlannable(Refused(field="calibration", message=message, accepted=accepted))
