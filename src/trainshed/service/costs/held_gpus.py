"""Counts the GPUs that a job really holds, and lists those that nodes have.

Nodes that emulate run jobs without their GPUs.
"""

from collections.abc import Collection, Mapping
from functools import cache, partial
from typing import NamedTuple

from trainshed.model.resources import FleetPolicy, JobDemand
from trainshed.planning.machine_parts import ReportedGpu
from trainshed.store.opening import Store


class HeldSize(NamedTuple):
    """What all machines of a job have."""

    gpus: int
    vcpus: float


class FleetReads:
    """The nodes as some jobs need them; reads them once, when the first job needs them."""

    def __init__(self, store: Store) -> None:
        """Read nothing yet."""
        self.list_emulating = cache(partial(emulating_nodes, store))
        self.list_gpus = cache(partial(list_reported_gpus, store))


def count_vcpus(demand: JobDemand) -> float:
    """Return the number of vCPUs that a job requests."""
    return float(sum(group.count * group.each.vcpus for group in demand.groups))


def count_held_gpus(
    store: Store,
    uid: int,
    demand: JobDemand,
    fleet: FleetReads | None = None,
) -> int:
    """Return the number of GPUs of a job while it runs; 0 on nodes that emulate.

    Without nodes, because its engine has not reported any, the job has those that it requests.
    ``fleet`` is for callers with many jobs.
    """
    gpus = sum(group.count * group.each.gpu_count for group in demand.groups)
    if not gpus:
        return 0
    emulating = (fleet or FleetReads(store)).list_emulating()
    return 0 if emulating and _is_emulated(store, uid) else gpus


def emulating_nodes(store: Store) -> Collection[str]:
    """Return the names of the nodes that emulate; on most servers there are none."""
    return {node.name for node in store.fleet() if node.policy is FleetPolicy.EMULATE}


def list_reported_gpus(store: Store) -> Mapping[str, ReportedGpu]:
    """Return the GPUs that engines have reported, by UUID."""
    return {
        gpu.uuid: ReportedGpu(node.name, gpu.index, gpu.type or gpu.name)
        for node in store.fleet()
        for gpu in node.devices
    }


def _is_emulated(store: Store, uid: int) -> bool:
    names = {replica.node for replica in store.replicas(uid)}
    policies = [node.policy for node in store.fleet() if node.name in names]
    return bool(policies) and all(policy is FleetPolicy.EMULATE for policy in policies)
