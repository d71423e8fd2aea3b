"""Counts the GPUs that a job really holds: nodes that emulate run jobs without their GPUs."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from trainshed.model.resources import FleetPolicy, JobDemand
from trainshed.store.opening import Store


class HeldSize(NamedTuple):
    """What all machines of a job have."""

    gpus: int
    vcpus: float


def count_vcpus(demand: JobDemand) -> float:
    """Return the number of vCPUs that a job requests."""
    return float(sum(group.count * group.each.vcpus for group in demand.groups))


def count_held_gpus(
    store: Store,
    uid: int,
    demand: JobDemand,
    list_emulating: Callable[[], Collection[str]] | None = None,
) -> int:
    """Return the number of GPUs of a job while it runs; 0 on nodes that emulate.

    Without nodes, because its engine has not reported any, the job has those that it requests.
    ``list_emulating`` is a cached ``emulating_nodes``, for callers with many jobs.
    """
    gpus = sum(group.count * group.each.gpu_count for group in demand.groups)
    if not gpus:
        return 0
    emulating = list_emulating() if list_emulating else emulating_nodes(store)
    return 0 if emulating and _is_emulated(store, uid) else gpus


def emulating_nodes(store: Store) -> Collection[str]:
    """Return the names of the nodes that emulate; on most servers there are none."""
    return {node.name for node in store.fleet() if node.policy is FleetPolicy.EMULATE}


def _is_emulated(store: Store, uid: int) -> bool:
    names = {replica.node for replica in store.replicas(uid)}
    policies = [node.policy for node in store.fleet() if node.name in names]
    return bool(policies) and all(policy is FleetPolicy.EMULATE for policy in policies)
