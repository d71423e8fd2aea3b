"""The cluster that a job gets: as rows for a person, and as a spec with its devices named."""

from dataclasses import dataclass, replace

from trainshed.admission.question import Question
from trainshed.model.job import Accelerator, JobSpec, ReplicaGroup
from trainshed.model.roles import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRow:
    """One group: its size, and what each of its machines has."""

    role: Role
    count: int
    machine_type: str | None
    vcpus: int | None
    memory_gb: float | None
    accelerator_type: str | None
    accelerator_count: int


def cluster_of(question: Question) -> tuple[ClusterRow, ...]:
    """The job's groups with the catalog's figures for their machines."""
    return tuple(_row(question, group) for group in question.spec.groups)


def equipped(question: Question) -> JobSpec:
    """The expanded spec with the accelerators that machine types bring, such as standard_gpu's."""
    groups = tuple(_equipped(question, group) for group in question.spec.groups)
    spec = question.spec
    return spec if groups == spec.groups else replace(spec, groups=groups)


def _equipped(question: Question, group: ReplicaGroup) -> ReplicaGroup:
    device = question.device(group)
    if device is None:
        return group
    accelerator = Accelerator(type=device.enum_name, count=device.count)
    return group if group.accelerator == accelerator else replace(group, accelerator=accelerator)


def _row(question: Question, group: ReplicaGroup) -> ClusterRow:
    machine, device = question.machine(group), question.device(group)
    return ClusterRow(
        role=group.role,
        count=group.count,
        machine_type=group.machine_type,
        vcpus=machine.vcpus if machine else None,
        memory_gb=machine.memory_gb if machine else None,
        accelerator_type=device.enum_name if device else None,
        accelerator_count=device.count if device else 0,
    )
