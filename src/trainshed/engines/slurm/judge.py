"""Judges whether a job can ever run on the cluster, by its last known nodes and limits.

Nodes that are only in use do not count against a job.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from trainshed.engines.base import JobNeeds
from trainshed.engines.slurm.nodes import ClusterState, is_open
from trainshed.engines.slurm.options import SlurmOptions, wishes_of
from trainshed.engines.slurm.parse import Partition, SlurmNode
from trainshed.engines.slurm.shape import JobShape, Need, ShapePart, roles_of, shape_of
from trainshed.model.explanation import Change, Explanation, Reason
from trainshed.model.faults import UsageFault

#: Added to the time limit of a job in Slurm, which is only the last resort.
SPARE_S: Final = 300.0
_MIB_PER_GB: Final = 1024


def explain_refusal(
    needs: JobNeeds, cluster: ClusterState, options: SlurmOptions
) -> Explanation | None:
    """Explain why the cluster can never run a job; None: the cluster can, or may be able to."""
    try:
        wishes = wishes_of(needs.wants, options)
    except UsageFault as fault:
        return _refuse(str(fault))
    name = partition_of(needs.demand.gpus, wishes, options)
    partition = cluster.partition(name)
    if name and cluster.partitions and partition is None:
        return _explain_partition(name, cluster)
    if not cluster.nodes:
        return None
    checks: tuple[Callable[[], Explanation | None], ...] = (
        lambda: _explain_time(needs.running_s_max, partition, options),
        lambda: _explain_nodes(needs, cluster, partition, options),
    )
    return next((explanation for check in checks if (explanation := check())), None)


def choose_excluded(
    lost_nodes: Sequence[str], needs: JobNeeds, cluster: ClusterState, options: SlurmOptions
) -> tuple[str, ...]:
    """Choose the nodes that a job should avoid, in the order of their names.

    Leaves out a node if the nodes that would remain, and accept jobs, could not hold the job; and a
    node that Slurm does not know, because Slurm refuses a job that names it.
    """
    if not cluster.nodes:
        return tuple(sorted(lost_nodes))
    names = {node.name for node in cluster.nodes}
    excluded: set[str] = set()
    for name in (name for name in lost_nodes if name in names):
        avoided = {*excluded, name}
        rest = [node for node in cluster.nodes if is_open(node) and node.name not in avoided]
        smaller = cluster._replace(nodes=rest)
        if rest and explain_refusal(needs, smaller, options) is None:
            excluded = avoided
    return tuple(sorted(excluded))


def partition_of(gpus: Mapping[str, int], wishes: Mapping[str, str], options: SlurmOptions) -> str:
    """Return the partition of a job, by its label, else by its accelerators, else the default."""
    by_type = next((options.partitions[name] for name in gpus if name in options.partitions), "")
    return wishes.get("partition") or by_type or options.partition


def minutes_of(running_s_max: float, beyond_s: float) -> int:
    """Return the time limit of a job in Slurm, in minutes, rounded up."""
    return math.ceil((running_s_max + beyond_s + SPARE_S) / 60)


def fitting(cluster: ClusterState, partition: Partition | None) -> Callable[[Need], int]:
    """Return a function that counts the nodes that can hold a replica when they are empty."""
    nodes = cluster.nodes_of(partition)
    return lambda need: sum(1 for node in nodes if _can_hold(cluster, node, need))


def _explain_partition(name: str, cluster: ClusterState) -> Explanation:
    names = ", ".join(sorted(cluster.partitions))
    return _refuse(f"the cluster has no partition {name}; it has: {names}")


def _explain_time(
    running_s_max: float | None, partition: Partition | None, options: SlurmOptions
) -> Explanation | None:
    if running_s_max is None or partition is None or partition.minutes_max is None:
        return None
    if minutes_of(running_s_max, options.beyond_s) <= partition.minutes_max:
        return None
    longest = max(0, int(partition.minutes_max * 60 - SPARE_S - options.beyond_s))
    text = (
        f"the job may run {running_s_max:g} s, and the partition {partition.name} lets jobs run "
        f"at most {longest} s"
    )
    return _refuse(
        text, field="running_max", requested=f"{running_s_max:g}s", accepted=f"{longest}s"
    )


def _explain_nodes(
    needs: JobNeeds, cluster: ClusterState, partition: Partition | None, options: SlurmOptions
) -> Explanation | None:
    shape = shape_of(
        roles_of(needs.demand),
        needs.demand,
        options.policy,
        packing=options.packing,
        fitting=fitting(cluster, partition),
    )
    explanations = (_explain_part(part, cluster, partition) for part in shape.parts)
    return next(
        (explanation for explanation in explanations if explanation), None
    ) or _explain_all_parts(shape, cluster, partition)


def _explain_part(
    part: ShapePart, cluster: ClusterState, partition: Partition | None
) -> Explanation | None:
    """Explain why no node can hold one replica, or the nodes cannot hold all replicas."""
    nodes = cluster.nodes_of(partition)
    explanation = _explain_one_replica(part, cluster, nodes, partition)
    if explanation:
        return explanation
    count_max = sum(_count_room(cluster, node, part.need) for node in nodes)
    return None if count_max >= part.count else _explain_replica_count(part, count_max, partition)


def _explain_one_replica(
    part: ShapePart, cluster: ClusterState, nodes: Sequence[SlurmNode], partition: Partition | None
) -> Explanation | None:
    need, role = part.need, part.role.value
    if any(_can_hold(cluster, node, need) for node in nodes):
        return None
    gpus = max((cluster.gpus_of(node, need.gpu_type) for node in nodes), default=0)
    if need.gpus and not gpus:
        types = ", ".join(cluster.types) or "none"
        text = f"{role} asks for {need.gpu_type}, and the GPUs of the cluster are: {types}"
        return _refuse(
            text,
            field="accelerator_type",
            role=role,
            requested=str(need.gpu_type),
            accepted=types,
        )
    if need.gpus > gpus:
        text = f"{role} asks for {need.gpus} {need.gpu_type} on one node, "
        return _refuse(
            f"{text}and {_describe_nodes(partition)} have at most {gpus}",
            field="accelerator_count",
            role=role,
            requested=str(need.gpus),
            accepted=str(gpus),
        )
    return _explain_machine(part, nodes, partition)


def _explain_machine(
    part: ShapePart, nodes: Sequence[SlurmNode], partition: Partition | None
) -> Explanation:
    need, role = part.need, part.role.value
    cpus = max((node.cpus for node in nodes), default=0)
    memory = max((node.memory_mib for node in nodes), default=0) // _MIB_PER_GB
    text = (
        f"{role} asks for {need.cpus} vCPUs and {need.memory_mib / _MIB_PER_GB:g} GB on one node, "
        f"and {_describe_nodes(partition)} have at most {cpus} vCPUs and {memory} GB"
    )
    accepted = f"{cpus} vCPUs and {memory} GB"
    return _refuse(
        text, field="machine_type", role=role, requested=f"{need.cpus} vCPUs", accepted=accepted
    )


def _explain_all_parts(
    shape: JobShape, cluster: ClusterState, partition: Partition | None
) -> Explanation | None:
    """Explain why all parts do not fit together; only packed parts share nodes."""
    if shape.packed:
        return _explain_packing(shape, cluster, partition)
    free_nodes = list(cluster.nodes_of(partition))
    limit = partition.nodes_max if partition else None
    used_count = 0
    for part in sorted(shape.parts, key=lambda part: (-part.need.gpus, -part.need.cpus)):
        rooms = sorted(
            ((_count_room(cluster, node, part.need), node) for node in free_nodes),
            key=lambda pair: -pair[0],
        )
        missing = part.count
        for room, node in rooms:
            if missing <= 0 or not room:
                break
            per_node = min(room, part.per_node or room)
            missing -= per_node
            used_count += 1
            free_nodes.remove(node)
        if missing > 0:
            return _explain_replica_count(
                part, part.count - missing, partition, _describe_other_parts(shape)
            )
    if partition is not None and limit is not None and used_count > limit:
        text = (
            f"the job needs {used_count} nodes, and the partition {partition.name} gives a job at "
            f"most {limit}"
        )
        return _refuse(text, field="replica_count", requested=str(used_count), accepted=str(limit))
    return None


def _explain_replica_count(
    part: ShapePart, count_max: int, partition: Partition | None, suffix: str = ""
) -> Explanation:
    other_count = part.other_role_count
    requested, accepted = part.count - other_count, max(0, count_max - other_count)
    beside = f" beside {other_count} of another role with the same resources" if other_count else ""
    text = (
        f"{part.role.value} asks for {requested} replicas{beside}, "
        f"and {_describe_nodes(partition)} hold at most {accepted} of them{suffix}"
    )
    return _refuse(
        text,
        field="replica_count",
        role=part.role.value,
        requested=str(requested),
        accepted=str(accepted),
    )


def _describe_other_parts(shape: JobShape) -> str:
    if len(shape.parts) == 1:
        return ""
    return ", beside replicas of other kinds, which need nodes of their own"


def _explain_packing(
    shape: JobShape, cluster: ClusterState, partition: Partition | None
) -> Explanation | None:
    count_max = fitting(cluster, partition)(shape.node_need)
    if count_max >= shape.largest.count:
        return None
    return _explain_replica_count(shape.largest, count_max, partition)


def _can_hold(cluster: ClusterState, node: SlurmNode, need: Need) -> bool:
    return _count_room(cluster, node, need) > 0


def _count_room(cluster: ClusterState, node: SlurmNode, need: Need) -> int:
    """Count the replicas that an empty node can hold."""
    return min(_list_limits(cluster, node, need))


def _list_limits(cluster: ClusterState, node: SlurmNode, need: Need) -> Iterator[int]:
    """Yield the number of replicas for which the CPUs, the memory and the GPUs suffice."""
    yield node.cpus // need.cpus
    if need.memory_mib:
        yield node.memory_mib // need.memory_mib
    if need.gpus:
        yield cluster.gpus_of(node, need.gpu_type) // need.gpus


def _describe_nodes(partition: Partition | None) -> str:
    return (
        "the cluster's nodes" if partition is None else f"the nodes of partition {partition.name}"
    )


def _refuse(
    text: str, *, field: str = "", role: str = "", requested: str = "", accepted: str = ""
) -> Explanation:
    change = None
    if field:
        words = f"would be accepted with {accepted} instead of {requested}"
        change = Change(field=field, role=role, asked=requested, accepted=accepted, text=words)
    return Explanation(reason=Reason.NO_SUCH_NODE, message=text, change=change)
