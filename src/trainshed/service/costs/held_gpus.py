"""Counts the GPUs that a job really holds: nodes that emulate run jobs without their GPUs."""

from trainshed.model.resources import FleetPolicy, JobDemand
from trainshed.store.opening import Store


def count_held_gpus(store: Store, uid: int, demand: JobDemand) -> int:
    """Return the number of GPUs of a job while it runs; 0 on nodes that emulate.

    Without nodes, because its engine has not reported any, the job has those that it requests.
    """
    gpus = sum(group.count * group.each.gpu_count for group in demand.groups)
    return gpus if gpus and not _is_emulated(store, uid) else 0


def _is_emulated(store: Store, uid: int) -> bool:
    names = {replica.node for replica in store.replicas(uid)}
    policies = [node.policy for node in store.fleet() if node.name in names]
    return bool(policies) and all(policy is FleetPolicy.EMULATE for policy in policies)
