"""Groups the machines of a job by their type."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainshed.catalog.machines import known_machines
from trainshed.model.job import JobSpec, ReplicaGroup
from trainshed.model.resources import Demand, JobDemand
from trainshed.planning.prices import Machines, paid_for


@dataclass(slots=True)
class MachineGroup:
    """All machines of one type of a job."""

    machines: list[Machines] = field(default_factory=list)
    gpus: int = 0
    vcpus: float = 0.0

    @property
    def count(self) -> int:
        """The number of machines."""
        return sum(machines.count for machines in self.machines)


def group_machines(
    spec: JobSpec, demand: JobDemand, *, has_gpus: bool = True
) -> Mapping[str, MachineGroup]:
    """Return the machines of a job by type, with attached accelerators in the type's name.

    ``spec`` is expanded; machines without a name are of the type ``unnamed``.  ``has_gpus`` says
    whether the nodes of the job have the GPUs of its demand.
    """
    demands = {group.role: group.each for group in demand.groups}
    groups: dict[str, MachineGroup] = {}
    for group in spec.groups:
        machines, demand_of_one = paid_for(group), demands.get(group.role, Demand())
        total = groups.setdefault(name_type(machines), MachineGroup())
        total.machines.append(machines)
        total.gpus += group.count * demand_of_one.gpu_count * has_gpus
        total.vcpus += group.count * count_vcpus_of(group, demand_of_one)
    return groups


def name_type(machines: Machines) -> str:
    """Return the name of a machine type, with its attached accelerators."""
    name = machines.machine_type or "unnamed"
    if not machines.accelerators:
        return name
    return f"{name} with {machines.accelerators} {machines.accelerator}"


def count_vcpus_of(group: ReplicaGroup, demand: Demand) -> float:
    """Return the vCPUs of one machine of a group; 0 if its type is unknown."""
    if demand.vcpus:
        return float(demand.vcpus)
    machine = known_machines().get(group.machine_type or "")
    return float((machine and machine.vcpus) or 0)
