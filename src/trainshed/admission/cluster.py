"""The expanded cluster as rows: what a person wants to see before a job runs."""

from dataclasses import dataclass

from trainshed.admission.question import Question
from trainshed.model.job import ReplicaGroup
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
