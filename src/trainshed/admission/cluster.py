"""Describes a job's cluster: as rows of a table, and as a spec that names all accelerators."""

from dataclasses import dataclass, replace

from trainshed.admission.context import RuleContext
from trainshed.model.job import Accelerator, JobSpec, ReplicaGroup
from trainshed.model.roles import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRow:
    """The size of one replica group, and the resources of each of its machines."""

    role: Role
    count: int
    machine_type: str | None
    vcpus: int | None
    memory_gb: float | None
    accelerator_type: str | None
    accelerator_count: int


def cluster_of(context: RuleContext) -> tuple[ClusterRow, ...]:
    """Return a row for each group of the job, with the catalog's figures for its machines."""
    return tuple(_make_row(context, group) for group in context.spec.groups)


def equipped(context: RuleContext) -> JobSpec:
    """Return the expanded spec with the accelerators that machine types include.

    ``standard_gpu``, for example, includes a GPU.
    """
    groups = tuple(_equip(context, group) for group in context.spec.groups)
    spec = context.spec
    return spec if groups == spec.groups else replace(spec, groups=groups)


def _equip(context: RuleContext, group: ReplicaGroup) -> ReplicaGroup:
    device = context.device(group)
    if device is None:
        return group
    accelerator = Accelerator(type=device.enum_name, count=device.count)
    return group if group.accelerator == accelerator else replace(group, accelerator=accelerator)


def _make_row(context: RuleContext, group: ReplicaGroup) -> ClusterRow:
    machine, device = context.machine(group), context.device(group)
    return ClusterRow(
        role=group.role,
        count=group.count,
        machine_type=group.machine_type,
        vcpus=machine.vcpus if machine else None,
        memory_gb=machine.memory_gb if machine else None,
        accelerator_type=device.enum_name if device else None,
        accelerator_count=device.count if device else 0,
    )
