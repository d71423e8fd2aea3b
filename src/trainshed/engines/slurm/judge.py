"""Judges whether a job can ever run on the cluster, by its last known nodes and limits.

Nodes that are only in use do not count against a job.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from trainshed.engines.base import JobNeeds
from trainshed.engines.slurm.nodes import ClusterState
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
    """Explain why a job can never run there; None: it can, or that is unknown."""
    try:
        wishes = wishes_of(needs.wants, options)
    except UsageFault as fault:
        return _never(str(fault))
    name = partition_of(needs.demand.gpus, wishes, options)
    partition = cluster.partition(name)
    if name and cluster.partitions and partition is None:
        return _no_partition(name, cluster)
    if not cluster.nodes:
        return None
    checks: tuple[Callable[[], Explanation | None], ...] = (
        lambda: _time(needs.running_s_max, partition, options),
        lambda: _nodes(needs, cluster, partition, options),
    )
    return next((explanation for check in checks if (explanation := check())), None)


def partition_of(gpus: Mapping[str, int], wishes: Mapping[str, str], options: SlurmOptions) -> str:
    """Return the partition of a job: its label, else that of its accelerators, else the default."""
    by_type = next((options.partitions[name] for name in gpus if name in options.partitions), "")
    return wishes.get("partition") or by_type or options.partition


def minutes_of(running_s_max: float, beyond_s: float) -> int:
    """Return the time limit in Slurm of a job, in minutes rounded up."""
    return math.ceil((running_s_max + beyond_s + SPARE_S) / 60)


def fitting(cluster: ClusterState, partition: Partition | None) -> Callable[[Need], int]:
    """Return a function that counts the nodes that can hold a replica when they are empty."""
    nodes = cluster.nodes_of(partition)
    return lambda need: sum(1 for node in nodes if _holds(cluster, node, need))


def _no_partition(name: str, cluster: ClusterState) -> Explanation:
    names = ", ".join(sorted(cluster.partitions))
    return _never(f"the cluster has no partition {name}; it has: {names}")


def _time(
    running_s_max: float | None, partition: Partition | None, options: SlurmOptions
) -> Explanation | None:
    if running_s_max is None or partition is None or partition.minutes_max is None:
        return None
    if minutes_of(running_s_max, options.beyond_s) <= partition.minutes_max:
        return None
    longest = max(0, int(partition.minutes_max * 60 - SPARE_S - options.beyond_s))
    text = (
        f"may run {running_s_max:g} s, and the partition {partition.name} lets jobs run "
        f"at most {longest} s"
    )
    return _never(
        text, field="running_max", requested=f"{running_s_max:g}s", accepted=f"{longest}s"
    )


def _nodes(
    needs: JobNeeds, cluster: ClusterState, partition: Partition | None, options: SlurmOptions
) -> Explanation | None:
    shape = shape_of(
        roles_of(needs.demand),
        needs.demand,
        options.policy,
        packing=options.packing,
        fitting=fitting(cluster, partition),
    )
    explanations = (_part(part, cluster, partition) for part in shape.parts)
    return next((explanation for explanation in explanations if explanation), None) or _together(
        shape, cluster, partition
    )


def _part(
    part: ShapePart, cluster: ClusterState, partition: Partition | None
) -> Explanation | None:
    """Explain why no node can hold one replica, or all nodes together cannot hold all."""
    nodes = cluster.nodes_of(partition)
    explanation = _one(part, cluster, nodes, partition)
    if explanation:
        return explanation
    most = sum(_room(cluster, node, part.need) for node in nodes)
    return None if most >= part.count else _too_many(part, most, partition)


def _one(
    part: ShapePart, cluster: ClusterState, rows: Sequence[SlurmNode], partition: Partition | None
) -> Explanation | None:
    need, role = part.need, part.role.value
    if any(_holds(cluster, node, need) for node in rows):
        return None
    gpus = max((cluster.gpus_of(node, need.gpu_type) for node in rows), default=0)
    if need.gpus and not gpus:
        types = ", ".join(cluster.types) or "none"
        text = f"{role} asks for {need.gpu_type}, and the GPUs of the cluster are: {types}"
        return _never(text, field="accelerator_type", role=role, requested=str(need.gpu_type),
                      accepted=types)  # fmt: skip
    if need.gpus > gpus:
        text = f"{role} asks for {need.gpus} {need.gpu_type} on one node, and {_where(partition)} "
        return _never(f"{text}have at most {gpus}", field="accelerator_count", role=role,
                      requested=str(need.gpus), accepted=str(gpus))  # fmt: skip
    return _machine(part, rows, partition)


def _machine(
    part: ShapePart, rows: Sequence[SlurmNode], partition: Partition | None
) -> Explanation:
    need, role = part.need, part.role.value
    cpus = max((row.cpus for row in rows), default=0)
    memory = max((row.memory_mib for row in rows), default=0) // _MIB_PER_GB
    text = (
        f"{role} asks for {need.cpus} vCPUs and {need.memory_mib / _MIB_PER_GB:g} GB on one node, "
        f"and {_where(partition)} have at most {cpus} vCPUs and {memory} GB"
    )
    accepted = f"{cpus} vCPUs and {memory} GB"
    return _never(
        text, field="machine_type", role=role, requested=f"{need.cpus} vCPUs", accepted=accepted
    )


def _together(
    shape: JobShape, cluster: ClusterState, partition: Partition | None
) -> Explanation | None:
    """Explain why the parts do not fit together; they share nodes only if they are packed."""
    if shape.packed:
        return _packed(shape, cluster, partition)
    left = list(cluster.nodes_of(partition))
    limit = partition.nodes_max if partition else None
    used = 0
    for part in sorted(shape.parts, key=lambda part: (-part.need.gpus, -part.need.cpus)):
        rooms = sorted(
            ((_room(cluster, node, part.need), node) for node in left), key=lambda r: -r[0]
        )
        missing = part.count
        for room, node in rooms:
            if missing <= 0 or not room:
                break
            per_node = min(room, part.per_node or room)
            missing -= per_node
            used += 1
            left.remove(node)
        if missing > 0:
            return _too_many(part, part.count - missing, partition, _apart(shape))
    if limit is not None and used > limit:
        text = f"needs {used} nodes, and the partition {partition.name if partition else ''} gives "
        return _never(f"{text}a job at most {limit}", field="replica_count",
                      requested=str(used), accepted=str(limit))  # fmt: skip
    return None


def _too_many(
    part: ShapePart, most: int, partition: Partition | None, suffix: str = ""
) -> Explanation:
    requested, accepted = part.count - part.other_role_count, max(0, most - part.other_role_count)
    also = (
        f" beside {part.other_role_count} of another role with the same resources"
        if part.other_role_count
        else ""
    )
    text = (
        f"{part.role.value} asks for {requested} replicas{also}, and {_where(partition)} hold "
        f"at most {accepted} of them{suffix}"
    )
    return _never(
        text,
        field="replica_count",
        role=part.role.value,
        requested=str(requested),
        accepted=str(accepted),
    )


def _apart(shape: JobShape) -> str:
    if len(shape.parts) == 1:
        return ""
    return ", beside replicas of other kinds, which need nodes of their own"


def _packed(
    shape: JobShape, cluster: ClusterState, partition: Partition | None
) -> Explanation | None:
    main = shape.largest
    most = fitting(cluster, partition)(shape.node_need)
    return None if most >= main.count else _too_many(main, most, partition)


def _holds(cluster: ClusterState, node: SlurmNode, need: Need) -> bool:
    return _room(cluster, node, need) > 0


def _room(cluster: ClusterState, node: SlurmNode, need: Need) -> int:
    """Count the replicas that an empty node can hold."""
    return min(_rooms(cluster, node, need))


def _rooms(cluster: ClusterState, node: SlurmNode, need: Need) -> Iterator[int]:
    yield node.cpus // need.cpus
    if need.memory_mib:
        yield node.memory_mib // need.memory_mib
    if need.gpus:
        yield cluster.gpus_of(node, need.gpu_type) // need.gpus


def _where(partition: Partition | None) -> str:
    return (
        "the cluster's nodes" if partition is None else f"the nodes of partition {partition.name}"
    )


def _never(
    text: str, *, field: str = "", role: str = "", requested: str = "", accepted: str = ""
) -> Explanation:
    change = None
    if field:
        words = f"would be accepted with {accepted} instead of {requested}"
        change = Change(field=field, role=role, asked=requested, accepted=accepted, text=words)
    return Explanation(reason=Reason.NO_SUCH_NODE, message=text, change=change)
