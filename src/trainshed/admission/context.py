"""The arguments of every rule: the job, the catalog, the date, and the scope of the check."""

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date

from trainshed.catalog.accelerators import UNSPECIFIED, AcceleratorType
from trainshed.catalog.catalog import Catalog
from trainshed.catalog.machines import MachineType
from trainshed.model.faults import Field, FieldPath, Violation
from trainshed.model.job import JobSpec, ReplicaGroup, ScaleTier
from trainshed.model.roles import Dialect, Role


class Scope(enum.Enum):
    """The scope of a check: MACHINES does not check images, packages and runtime versions."""

    MACHINES = "machines"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDevices:
    """The accelerators of each replica of a group, with those that its machine type includes."""

    enum_name: str
    count: int
    type: AcceleratorType


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleContext:
    """One job for the rules: ``submitted_spec`` as the caller wrote it, ``spec`` expanded."""

    submitted_spec: JobSpec
    spec: JobSpec
    catalog: Catalog
    today: date
    """The date against which rules check the job; the caller may have chosen it."""
    scope: Scope

    def machine(self, group: ReplicaGroup) -> MachineType | None:
        """Return the group's machine type; None if it is unknown or the edition refuses it.

        A scale tier may use machine types that the edition refuses in a job.
        """
        machines = self.catalog.known_machines if self.is_tier else self.catalog.machines
        return machines.get(group.machine_type or "")

    @property
    def is_tier(self) -> bool:
        """Whether a scale tier defines the cluster, so that the service chooses the machines."""
        is_ml = self.submitted_spec.dialect is Dialect.ML_V1
        return is_ml and self.submitted_spec.scale_tier is not ScaleTier.CUSTOM

    def device(self, group: ReplicaGroup) -> GroupDevices | None:
        """Return the accelerators of the group's machines; None if unknown or without any."""
        accelerator, machine = group.accelerator, self.machine(group)
        name, count = None, None
        if accelerator and accelerator.type and accelerator.type != UNSPECIFIED:
            name, count = accelerator.type, accelerator.count
        elif machine and machine.bundled:
            name, count = machine.bundled.type, machine.bundled.count
        device_type = self.catalog.accelerator(name) if name else None
        if not device_type or not name or not count or count < 1:
            return None
        return GroupDevices(enum_name=name, count=count, type=device_type)

    def egress_gbps(self, group: ReplicaGroup) -> float | None:
        """Return the bandwidth of each of the group's machines, in Gbit/s; None if unknown."""
        machine, device = self.machine(group), self.device(group)
        if machine is None:
            return None
        name, count = (device.enum_name, device.count) if device else (None, 0)
        return self.catalog.egress_gbps(machine, name, count)

    def devices(self) -> Iterator[tuple[ReplicaGroup, GroupDevices]]:
        """Yield every group that has accelerators, with its accelerators."""
        for group in self.spec.groups:
            device = self.device(group)
            if device:
                yield group, device


Rule = Callable[[RuleContext], Iterator[Violation]]


def broken(
    where: ReplicaGroup | Role | None, field: Field, rule: str, message: str, accepted: str = ""
) -> Violation:
    """Return a violation of a field of a group, or of the job if ``where`` is None."""
    path = FieldPath(field, where.role if isinstance(where, ReplicaGroup) else where)
    return Violation(field=path, rule=rule, message=message, accepted=accepted)


def both_or_none(context: RuleContext) -> str:
    """Return Google's message about one of two fields without the other (docs/decisions/0076)."""
    if context.submitted_spec.dialect is Dialect.ML_V1:
        return "Both `type` and `count` should be specified or none"
    return "Both `accelerator_type` and `accelerator_count` should be specified or none"
