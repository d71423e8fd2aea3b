"""Judges whether a job can ever run on the cluster, by its last known nodes and limits.

Nodes that are only in use do not count against a job.  Of several partitions, each one that could
run the job alone is eligible.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from trainshed.engines.base import JobNeeds
from trainshed.engines.slurm.nodes import ClusterState, is_open
from trainshed.engines.slurm.options import SlurmOptions, wishes_of
from trainshed.engines.slurm.parse import Partition
from trainshed.engines.slurm.pool import NodePool, merge, pool_of
from trainshed.engines.slurm.shape import JobShape, ShapePart, ShapeRules, roles_of, shape_of
from trainshed.engines.slurm.time_grant import TimeGrant, grant_time, longest_s
from trainshed.model.explanation import Change, Explanation, Reason
from trainshed.model.faults import UsageFault
from trainshed.model.labels import is_measured
from trainshed.model.resources import JobDemand
from trainshed.model.roles import Role

_MIB_PER_GB: Final = 1024


class PartitionChoice(NamedTuple):
    """Where a job may run, and how long."""

    partition: str
    """The names of the eligible partitions, with commas; empty: the default partition."""
    pool: NodePool
    """The nodes of the eligible partitions."""
    grant: TimeGrant


def explain_refusal(
    needs: JobNeeds, cluster: ClusterState, options: SlurmOptions
) -> Explanation | None:
    """Explain why the cluster can never run a job; None: the cluster can, or may be able to."""
    try:
        wishes = wishes_of(needs.wants, options)
    except UsageFault as fault:
        return _refuse(str(fault))
    names = partition_of(needs.demand.gpus, wishes, options).split(",")
    absent = [name for name in names if name and cluster.partition(name) is None]
    if absent and cluster.partitions:
        return _explain_partition(absent[0], cluster)
    if not cluster.nodes:
        return None
    refusals = [
        _explain_in_partition(needs, pool, options)
        for _, pool in _list_pools(names, cluster, wishes, options)
    ]
    if any(refusal is None for refusal in refusals):
        return None
    return _join([refusal for refusal in refusals if refusal is not None])


def choose_partitions(
    needs: JobNeeds, cluster: ClusterState, options: SlurmOptions
) -> PartitionChoice:
    """Choose the partitions that can run a job, and its time.  Raises UsageFault for its labels.

    The time is the largest that one of them permits; partitions that permit less are left out.  If
    no partition can run the job, all are requested, and Slurm explains why it refuses the job.
    """
    wishes = wishes_of(needs.wants, options)
    names = partition_of(needs.demand.gpus, wishes, options).split(",")
    pools = _list_pools(names, cluster, wishes, options)
    eligible = [row for row in pools if _explain_in_partition(needs, row[1], options) is None]
    eligible = eligible or pools
    longest = max(eligible, key=lambda row: _minutes_max(row[1]))
    grant = grant_time(needs.running_s_max, longest[1].partition, options)
    minutes = float("inf") if grant.minutes is None else grant.minutes
    eligible = [row for row in eligible if _minutes_max(row[1]) >= minutes]
    names = [name for name, _ in eligible]
    return PartitionChoice(",".join(names), merge([pool for _, pool in eligible]), grant)


def shape_for(
    demand: JobDemand,
    roles: Sequence[Role],
    pool: NodePool,
    options: SlurmOptions,
    wants: Mapping[str, str],
) -> JobShape:
    """Return the allocation that a job requests in a pool of nodes.

    The replicas of a measurement are spread: it measures the network between hosts.
    """
    rules = ShapeRules(
        policy=options.policy,
        packing=options.packing,
        spread=options.spread or not pool.cluster.has_gpu_options,
        spread_all=is_measured(wants),
        waste_max=options.waste_max,
        memory_per_cpu_max=pool.memory_per_cpu_max,
    )
    return shape_of(roles, demand, rules, pool.count_fitting)


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
    """Return the partition of a job, by its label, else by its accelerators, else the default.

    The setting may list several, with commas.
    """
    by_type = next((options.partitions[name] for name in gpus if name in options.partitions), "")
    return wishes.get("partition") or by_type or options.partition


def _list_pools(
    names: Sequence[str], cluster: ClusterState, wishes: Mapping[str, str], options: SlurmOptions
) -> list[tuple[str, NodePool]]:
    constraint = wishes.get("constraint") or options.constraint
    limit = None if options.time_max_s is None else int(options.time_max_s / 60)
    partitions = {name: cluster.partition(name) for name in names}
    return [
        (name, pool_of(cluster, partition and partition.limit_minutes(limit), constraint))
        for name, partition in partitions.items()
    ]


def _minutes_max(pool: NodePool) -> float:
    limit = pool.partition.minutes_max if pool.partition else None
    return float("inf") if limit is None else limit


def _explain_in_partition(
    needs: JobNeeds, pool: NodePool, options: SlurmOptions
) -> Explanation | None:
    checks: tuple[Callable[[], Explanation | None], ...] = (
        lambda: _explain_time(needs, pool.partition, options),
        lambda: _explain_nodes(needs, pool, options),
    )
    return next((explanation for check in checks if (explanation := check())), None)


def _join(refusals: Sequence[Explanation]) -> Explanation:
    """Return the first refusal, with the messages of all partitions."""
    messages = dict.fromkeys(refusal.message for refusal in refusals)
    return replace(refusals[0], message="; ".join(messages))


def _explain_partition(name: str, cluster: ClusterState) -> Explanation:
    names = ", ".join(sorted(cluster.partitions))
    return _refuse(f"the cluster has no partition {name}; it has: {names}")


def _explain_time(
    needs: JobNeeds, partition: Partition | None, options: SlurmOptions
) -> Explanation | None:
    """Explain why a partition does not give a job the time that it sets, or gives no time at all.

    A job that sets none gets what the partition permits.
    """
    limit_s = needs.running_s_max
    if partition is None or partition.minutes_max is None:
        return None
    longest = longest_s(partition.minutes_max, options.beyond_s)
    if longest and (limit_s is None or limit_s <= longest or not needs.sets_time):
        return None
    may_run = "without a limit" if limit_s is None else f"{limit_s:.12g} s"
    text = (
        f"the job may run {may_run}, and the partition {partition.name} lets jobs run "
        f"at most {longest} s"
    )
    if not longest:
        return _refuse(f"{text}: MaxTime is shorter than `grace_s` and `hold_s` of the engine")
    return _refuse(text, field="running_max", requested=f"{limit_s:.12g}s", accepted=f"{longest}s")


def _explain_nodes(needs: JobNeeds, pool: NodePool, options: SlurmOptions) -> Explanation | None:
    if pool.constraint and not pool.nodes:
        return _refuse(f"{_describe_nodes(pool)} lack the features of {pool.constraint}")
    shape = shape_for(needs.demand, roles_of(needs.demand), pool, options, needs.wants)
    explanations = (_explain_part(part, pool) for part in shape.parts)
    return next(
        (explanation for explanation in explanations if explanation), None
    ) or _explain_all_parts(shape, pool)


def _explain_part(part: ShapePart, pool: NodePool) -> Explanation | None:
    """Explain why no node can hold one replica, or the nodes cannot hold all replicas."""
    if explanation := _explain_one_replica(part, pool):
        return explanation
    word = pool.choose_word(part.need, part.count)
    count_max = pool.count_replicas(part.need, word)
    if count_max >= part.count:
        return None
    return _explain_replica_count(part, count_max, pool, _describe_words(part, word, pool))


def _explain_one_replica(part: ShapePart, pool: NodePool) -> Explanation | None:
    need, role = part.need, part.role.value
    if pool.count_fitting(need):
        return None
    gpus = pool.count_gpus(need)
    if need.gpus and not gpus:
        return _explain_type(str(need.gpu_type), role, pool.cluster)
    if need.gpus > gpus:
        text = f"{role} asks for {need.gpus} {need.gpu_type} on one node, "
        return _refuse(
            f"{text}and {_describe_nodes(pool)} have at most {gpus}",
            field="accelerator_count",
            role=role,
            requested=str(need.gpus),
            accepted=str(gpus),
        )
    return _explain_machine(part, pool)


def _explain_type(gpu_type: str, role: str, cluster: ClusterState) -> Explanation:
    """Explain an absent type of GPUs; a job can name the catalog's types, not the cluster's own."""
    own = [word for word in cluster.types if cluster.is_own_type(word)]
    accepted = ", ".join(name for name in cluster.types if name not in own)
    types = ", ".join(cluster.types) or "none"
    text = f"{role} asks for {gpu_type}, and the GPUs of the cluster are: {types}"
    if own:
        text += (
            f'; with `gres = {{ {gpu_type} = "{own[0]}" }}` in the [[engine]] table of the cluster '
            f"and a restart of the server, jobs that ask for {gpu_type} get {own[0]}"
        )
    field = "accelerator_type" if accepted else ""
    return _refuse(text, field=field, role=role, requested=gpu_type, accepted=accepted)


def _explain_machine(part: ShapePart, pool: NodePool) -> Explanation:
    need, role = part.need, part.role.value
    cpus = max((node.cpus for node in pool.nodes), default=0)
    memory = max((node.memory_mib for node in pool.nodes), default=0) // _MIB_PER_GB
    limit = pool.memory_per_cpu_max
    because = f" (MaxMemPerCPU is {limit} MiB)" if limit and need.memory_mib else ""
    requested = f"{need.cpus} vCPUs and {need.memory_mib / _MIB_PER_GB:g} GB"
    text = (
        f"{role} asks for {requested}{because} on "
        f"one node, and {_describe_nodes(pool)} have at most {cpus} vCPUs and {memory} GB"
    )
    if need.gpus:  # a machine type with these GPUs may have no smaller one
        text += (
            '; with `policy = "best-effort"` in the [[engine]] table jobs ask for their GPUs, one '
            "CPU and the cluster's default memory"
        )
    accepted = f"{cpus} vCPUs and {memory} GB"
    return _refuse(text, field="machine_type", role=role, requested=requested, accepted=accepted)


def _explain_all_parts(shape: JobShape, pool: NodePool) -> Explanation | None:
    """Explain why all parts do not fit together; only packed parts share nodes."""
    if shape.packed:
        return _explain_packing(shape, pool)
    free_nodes, partition = list(pool.nodes), pool.partition
    limit = partition.nodes_max if partition else None
    used_count = 0
    for part in sorted(shape.parts, key=lambda part: (-part.need.gpus, -part.need.cpus)):
        word = pool.choose_word(part.need, part.count)
        rooms = sorted(
            ((pool.count_room(node, part.need, word), node) for node in free_nodes),
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
                part, part.count - missing, pool, _describe_other_parts(shape)
            )
    if partition is not None and limit is not None and used_count > limit:
        text = (
            f"the job needs {used_count} nodes, and the partition {partition.name} gives a job at "
            f"most {limit}"
        )
        return _refuse(text, field="replica_count", requested=str(used_count), accepted=str(limit))
    return None


def _explain_replica_count(
    part: ShapePart, count_max: int, pool: NodePool, suffix: str = ""
) -> Explanation:
    other_count = part.other_role_count
    requested, accepted = part.count - other_count, max(0, count_max - other_count)
    beside = f" beside {other_count} of another role with the same resources" if other_count else ""
    text = (
        f"{part.role.value} asks for {requested} replicas{beside}, "
        f"and {_describe_nodes(pool)} hold at most {accepted} of them{suffix}"
    )
    return _refuse(
        text,
        field="replica_count",
        role=part.role.value,
        requested=str(requested),
        accepted=str(accepted),
    )


def _describe_words(part: ShapePart, word: str | None, pool: NodePool) -> str:
    """Describe the choice among several of Slurm's words for one type; empty: there is one."""
    words = pool.list_words(part.need)
    if len(words) < 2:  # noqa: PLR2004 - a choice
        return ""
    others = ", ".join(name for name in words if name != word)
    return f", all with GPUs that Slurm calls {word}; it calls others {others}"


def _describe_other_parts(shape: JobShape) -> str:
    if len(shape.parts) == 1:
        return ""
    return ", beside replicas of other kinds, which need nodes of their own"


def _explain_packing(shape: JobShape, pool: NodePool) -> Explanation | None:
    count_max = pool.count_fitting(shape.node_need)
    if count_max >= shape.largest.count:
        return None
    return _explain_replica_count(shape.largest, count_max, pool)


def _describe_nodes(pool: NodePool) -> str:
    if pool.partition is None:
        return "the cluster's nodes"
    return f"the nodes of partition {pool.partition.name}"


def _refuse(
    text: str, *, field: str = "", role: str = "", requested: str = "", accepted: str = ""
) -> Explanation:
    change = None
    if field:
        words = f"would be accepted with {accepted} instead of {requested}"
        change = Change(field=field, role=role, asked=requested, accepted=accepted, text=words)
    return Explanation(reason=Reason.NO_SUCH_NODE, message=text, change=change)
