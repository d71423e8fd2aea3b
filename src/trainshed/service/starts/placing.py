"""Applies the policies of nodes: devices and limits of replicas, and notes for the log."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from trainshed.catalog.machines import MachineType
from trainshed.catalog.open import catalog_for
from trainshed.launch.compose import TRAINS
from trainshed.launch.context import in_role_order
from trainshed.launch.devices import gpus_of
from trainshed.launch.names import list_replicas
from trainshed.launch.site import NO_LIMITS, MachineLimits, ReplicaKey
from trainshed.model.job import JobSpec
from trainshed.model.resources import FleetPolicy, JobDemand, Node, Seat
from trainshed.model.roles import Role
from trainshed.planning.reduction_forecast import ONE_MACHINE

#: The memory of machine types is printed in GB and meant in GiB.
_GIB: Final = 1 << 30

#: The most nodes that a sentence names.
SHARED_MAX: Final = 8

NodeOfReplica = Mapping[ReplicaKey, Node]


def list_emulated(nodes: NodeOfReplica) -> frozenset[ReplicaKey]:
    """List the replicas whose nodes emulate accelerators."""
    return frozenset(key for key, node in nodes.items() if node.policy is FleetPolicy.EMULATE)


def exact_limits(spec: JobSpec, nodes: NodeOfReplica) -> dict[ReplicaKey, MachineLimits]:
    """Return the limits of replicas on nodes that reserve exactly their machine types."""
    keys = [key for key, node in nodes.items() if node.policy is FleetPolicy.EXACT]
    by_role = _limits_by_role(spec) if keys else {}
    return {key: by_role[key[0]] for key in keys}


def limits_here(
    spec: JobSpec, overlays: tuple[Path, ...]
) -> tuple[dict[ReplicaKey, MachineLimits], tuple[str, ...]]:
    """Return the limits of a local run's replicas, and notes on limits that do not apply.

    Nothing is reserved, and machine types may be larger than this machine: docker refuses more
    CPUs than the machine has.
    """
    cpus = os.cpu_count() or 1
    started = in_role_order(spec)
    by_role = _limits_by_role(started, overlays)
    if all(limits == NO_LIMITS for limits in by_role.values()):
        return {}, ("No limit applies: no replica names a machine type of the catalog.",)
    fitting = {
        role: replace(limits, cpus_max=None) if (limits.cpus_max or 0) > cpus else limits
        for role, limits in by_role.items()
    }
    keys = {key: fitting[key[0]] for key in list_replicas(started)}
    if fitting == by_role:
        return keys, ()
    return keys, (f"This machine has {cpus} CPUs: larger machine types may use them all.",)


def _limits_by_role(spec: JobSpec, overlays: tuple[Path, ...] = ()) -> dict[Role, MachineLimits]:
    """Return the memory and the CPUs of the machine type of each group."""
    machines = catalog_for(spec.dialect, None, overlays, None).known_machines
    return {group.role: _limits_of(machines.get(group.machine_type or "")) for group in spec.groups}


def _limits_of(machine: MachineType | None) -> MachineLimits:
    memory_gb = machine.memory_gb if machine else None
    vcpus = machine.vcpus if machine else None
    return MachineLimits(
        memory_bytes_max=int(memory_gb * _GIB) if memory_gb else None,
        cpus_max=float(vcpus) if vcpus else None,
    )


def placing_notes(spec: JobSpec, seats: Sequence[Seat], nodes: NodeOfReplica) -> tuple[str, ...]:
    """Return a sentence for each difference between requested and real devices or links."""
    groups = {group.role: gpus_of(group) for group in in_role_order(spec).groups}
    devices = (
        note
        for key in list_replicas(in_role_order(spec))
        if key in nodes
        for note in _alias_notes(*groups[key[0]], nodes[key])
    )
    return tuple(dict.fromkeys((*devices, *_shared_links(seats))))


def cpu_warnings(demand: JobDemand, nodes: NodeOfReplica) -> tuple[str, ...]:
    """Return a sentence for each node on which replicas that request GPUs run on the CPU."""
    demands = {group.role: group.each for group in demand.groups if group.each.gpu_count}
    pairs = [(node, demands[key[0]]) for key, node in nodes.items() if key[0] in demands]
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
    """Warn of reducers that share a link with a worker: only separate links give a gain."""
    reducing = {seat.node for seat in seats if seat.role is Role.REDUCER}
    working = {seat.node for seat in seats if seat.role in TRAINS}
    if not reducing:
        return
    if len(working) == 1 and reducing == working:
        yield ONE_MACHINE
    elif shared := sorted(reducing & working):
        yield (
            f"Reducers share the links of workers on {', '.join(shared[:SHARED_MAX])}"
            f"{' and others' if len(shared) > SHARED_MAX else ''}: their traffic takes bandwidth "
            "from the workers, and the exchange gains less than predicted."
        )


def _alias_notes(gpu_count: int, gpu_type: str | None, node: Node) -> Iterator[str]:
    kind = gpu_type or "GPU"
    is_other = gpu_count and node.policy is not FleetPolicy.EMULATE and kind not in node.gpus
    if is_other and (alias := node.gpu_alias.get(kind)):
        yield f"Node {node.name} gives {alias} GPUs in the place of {kind}."
