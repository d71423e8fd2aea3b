"""What the policy of a replica's node means: its devices, its limits, what its job's log says."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from trainshed.catalog.machines import MachineType
from trainshed.catalog.open import catalog_for
from trainshed.model.job import JobSpec
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.resources import FleetPolicy, JobDemand, Node, Seat
from trainshed.model.roles import Role
from trainshed.planning.reduction_forecast import ONE_MACHINE

#: The memory of machine types is printed in GB and meant in GiB.
_GIB: Final = 1 << 30

#: The roles that exchange gradients.
WORLD: Final = frozenset({Role.PRIMARY, Role.WORKER})
#: Nodes that a sentence names.
SHARED_MAX: Final = 8

NodeOfReplica = Mapping[tuple[Role, int], Node]


def as_placed(replicas: Sequence[ReplicaPlan], nodes: NodeOfReplica) -> tuple[ReplicaPlan, ...]:
    """The replicas with the devices that their nodes give: none on one that emulates."""
    return tuple(
        replace(replica, gpu_count=0, gpu_type=None)
        if _is_on(replica, nodes, FleetPolicy.EMULATE)
        else replica
        for replica in replicas
    )


def limited(
    replicas: tuple[ReplicaPlan, ...], spec: JobSpec, nodes: NodeOfReplica
) -> tuple[ReplicaPlan, ...]:
    """The replicas with the limits of their machine types, on nodes that reserve exactly those."""
    if not any(_is_on(replica, nodes, FleetPolicy.EXACT) for replica in replicas):
        return replicas
    return tuple(
        exact if _is_on(replica, nodes, FleetPolicy.EXACT) else replica
        for replica, exact in zip(replicas, with_limits(replicas, spec), strict=True)
    )


def with_limits(
    replicas: Sequence[ReplicaPlan], spec: JobSpec, overlays: tuple[Path, ...] = ()
) -> tuple[ReplicaPlan, ...]:
    """The replicas, each with the memory and the CPUs of its machine type as limits."""
    machines = catalog_for(spec.dialect, None, overlays, None).known_machines
    types = {group.role: machines.get(group.machine_type or "") for group in spec.groups}
    return tuple(_limited(replica, types[replica.role]) for replica in replicas)


def limited_here(
    replicas: Sequence[ReplicaPlan], spec: JobSpec, overlays: tuple[Path, ...]
) -> tuple[tuple[ReplicaPlan, ...], tuple[str, ...]]:
    """The replicas of a local run with their limits, and what there is to say of these.

    Nothing is reserved, and machine types may be larger than this machine: docker refuses more
    CPUs than there are.
    """
    cpus = os.cpu_count() or 1
    found = with_limits(replicas, spec, overlays)
    if not any(replica.memory_bytes_max or replica.cpus_max for replica in found):
        return found, ("No limit is kept: no replica names a machine type of the catalog.",)
    fitting = tuple(
        replace(replica, cpus_max=None) if (replica.cpus_max or 0) > cpus else replica
        for replica in found
    )
    if fitting == found:
        return found, ()
    return fitting, (f"This machine has {cpus} CPUs: larger machine types may use them all.",)


def _limited(replica: ReplicaPlan, machine: MachineType | None) -> ReplicaPlan:
    memory_gb = machine.memory_gb if machine else None
    vcpus = machine.vcpus if machine else None
    return replace(
        replica,
        memory_bytes_max=int(memory_gb * _GIB) if memory_gb else None,
        cpus_max=float(vcpus) if vcpus else None,
    )


def placing_notes(
    replicas: Sequence[ReplicaPlan], seats: Sequence[Seat], nodes: NodeOfReplica
) -> tuple[str, ...]:
    """Where a job gets other devices or links than it asked for, or none, a sentence each."""
    notes = (note for replica in replicas for note in _notes(replica, nodes))
    return tuple(dict.fromkeys((*notes, *_shared_links(seats))))


def cpu_warnings(
    replicas: Iterable[tuple[Role, int]], demand: JobDemand, nodes: NodeOfReplica
) -> tuple[str, ...]:
    """Say of which nodes replicas run on the CPU though they ask for GPUs, a sentence each."""
    demands = {group.role: group.each for group in demand.groups if group.each.gpu_count}
    pairs = [
        (nodes[key], demands[key[0]]) for key in replicas if key in nodes and key[0] in demands
    ]
    return tuple(
        dict.fromkeys(
            f"Node {node.name} emulates accelerators: replicas that asked for {group.gpu_count} "
            f"{group.gpu_type or 'GPU'} run without GPUs, on the CPU. GPUs need a node that has "
            "them, and another [fleet] policy than emulate."
            for node, group in pairs
            if node.policy is FleetPolicy.EMULATE
        )
    )


def _shared_links(seats: Sequence[Seat]) -> Iterator[str]:
    """Reducers gain by links of their own: one that it shares with a worker adds nothing."""
    reducing = {seat.node for seat in seats if seat.role is Role.REDUCER}
    working = {seat.node for seat in seats if seat.role in WORLD}
    if not reducing:
        return
    if len(working) == 1 and reducing == working:
        yield ONE_MACHINE
    elif shared := sorted(reducing & working):
        yield (
            f"Reducers share the links of workers on {', '.join(shared[:SHARED_MAX])}"
            f"{' and others' if len(shared) > SHARED_MAX else ''}: what they carry there is taken "
            "from the workers, and the exchange gains less than predicted."
        )


def _notes(replica: ReplicaPlan, nodes: NodeOfReplica) -> Iterator[str]:
    node = nodes.get((replica.role, replica.index))
    if node is None or not replica.gpu_count:
        return
    kind = replica.gpu_type or "GPU"
    if (
        node.policy is not FleetPolicy.EMULATE
        and kind not in node.gpus
        and (alias := node.gpu_alias.get(kind))
    ):
        yield f"Node {node.name} gives {alias} GPUs in the place of {kind}."


def _is_on(replica: ReplicaPlan, nodes: NodeOfReplica, policy: FleetPolicy) -> bool:
    node = nodes.get((replica.role, replica.index))
    return node is not None and node.policy is policy
