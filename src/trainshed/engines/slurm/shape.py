"""Describes the allocation of an attempt, its components, and the steps that start wardens.

Consecutive replicas with the same resources make one component, and so do replicas that differ
little in CPUs and memory: each then gets what the largest needs.  One component is a plain job;
several are a heterogeneous job, whose components never share a node.  With packing, all
replicas share one allocation of equal nodes, and a step for each component runs on these nodes.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from trainshed.model.resources import Demand, FleetPolicy, JobDemand
from trainshed.model.roles import Role

_MIB_PER_GB: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The resources of one replica in Slurm."""

    cpus: int = 1
    memory_mib: int = 0
    """0: the cluster's default."""
    gpu_type: str | None = None
    gpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapePart:
    """Consecutive replicas with the same resources."""

    first: int
    """Position of the first replica in the plan."""
    count: int
    need: Need
    role: Role
    """Role of the last replica; a chief and its workers are one part if they need the same."""
    other_role_count: int = 0
    """Number of replicas with another role."""
    per_node: int | None = None
    """Number of replicas on a node, for replicas that are spread; None: Slurm chooses the nodes."""

    @property
    def nodes(self) -> int | None:
        """Number of nodes; None: Slurm decides."""
        return None if self.per_node is None else math.ceil(self.count / self.per_node)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobShape:
    """The allocation that an attempt requests."""

    parts: tuple[ShapePart, ...]
    packed: bool = False
    """Whether all parts share the nodes of one allocation."""

    @property
    def largest(self) -> ShapePart:
        """Return the part with the most GPUs, then CPUs; the others are packed onto its nodes."""
        return max(self.parts, key=lambda part: (part.need.gpus, part.need.cpus, part.count))

    def share(self, part: ShapePart) -> int:
        """Return the maximum number of replicas of a part on one node of a packed allocation."""
        return math.ceil(part.count / self.largest.count)

    @property
    def node_need(self) -> Need:
        """Resources of a packed node: a replica of the largest part, and a share of the rest."""
        largest = self.largest
        shares = [(part, self.share(part)) for part in self.parts]
        return Need(
            cpus=sum(part.need.cpus * share for part, share in shares),
            memory_mib=sum(part.need.memory_mib * share for part, share in shares),
            gpu_type=largest.need.gpu_type,
            gpus=largest.need.gpus,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeRules:
    """How a cluster shapes allocations."""

    policy: FleetPolicy = FleetPolicy.EXACT
    """CPUs and memory count only with the policy ``exact``."""
    packing: bool = False
    """Whether small replicas share nodes with replicas that have GPUs."""
    spread: bool = False
    """Whether replicas with GPUs are spread over as many nodes as can hold one."""
    spread_all: bool = False
    """Whether replicas without GPUs are spread, too."""
    waste_max: float = 0.0
    """The share of the CPUs and of the memory that one shape for different replicas may waste."""
    memory_per_cpu_max: int | None = None
    """The memory that a job may have for each CPU, in MiB; None: no limit."""


def need_of(demand: Demand, rules: ShapeRules) -> Need:
    """Convert a demand; a replica gets as many CPUs as its memory requires on the cluster."""
    exact = rules.policy is FleetPolicy.EXACT
    memory_mib = math.ceil(demand.memory_gb * _MIB_PER_GB) if exact else 0
    return Need(
        cpus=_count_cpus(demand.vcpus if exact else 1, memory_mib, rules.memory_per_cpu_max),
        memory_mib=memory_mib,
        gpu_type=demand.gpu_type if demand.gpu_count else None,
        gpus=demand.gpu_count,
    )


def _count_cpus(cpus: int, memory_mib: int, memory_per_cpu_max: int | None) -> int:
    return max(1, cpus, math.ceil(memory_mib / memory_per_cpu_max) if memory_per_cpu_max else 1)


def shape_of(
    roles: Sequence[Role],
    demand: JobDemand,
    rules: ShapeRules,
    fitting: Callable[[Need], int] = lambda _: 0,
) -> JobShape:
    """Return the shape for replicas in the order of their plan.

    ``fitting`` returns the number of nodes that can hold a replica.  If these are fewer than the
    replicas that are to be spread, several replicas share a node.
    """
    needs = {
        replica_group.role: need_of(replica_group.each, rules) for replica_group in demand.groups
    }
    rows = [(role, needs.get(role, Need())) for role in roles]
    groups = [list(group) for _, group in groupby(rows, key=lambda row: row[1])]
    parts, first = [], 0
    can_pack = rules.packing and len(groups) > 1
    for members in groups if can_pack else _join_similar(groups, rules.waste_max):
        part = _make_part(first, members)
        if (rules.spread_all and not can_pack) or (rules.spread and part.need.gpus):
            part = replace(part, per_node=_per_node(part, fitting))
        parts.append(part)
        first += part.count
    is_packed = can_pack and sum(1 for part in parts if part.need.gpus) <= 1
    return JobShape(parts=tuple(parts), packed=is_packed)


_Members = list[tuple[Role, Need]]


def _join_similar(groups: Sequence[_Members], waste_max: float) -> Sequence[_Members]:
    """Join neighbouring groups while the replicas that need less waste at most a share."""
    joined: list[_Members] = []
    for members in groups:
        if joined and _waste([*joined[-1], *members]) <= waste_max:
            joined[-1] = [*joined[-1], *members]
        else:
            joined.append(members)
    return joined


def _waste(members: _Members) -> float:
    """Return the larger share of CPUs and memory that one shape wastes; infinite: GPUs differ."""
    needs = [need for _, need in members]
    if len({(need.gpu_type, need.gpus) for need in needs}) > 1:
        return math.inf
    largest, count = _largest(needs), len(needs)
    cpus = 1 - sum(need.cpus for need in needs) / (largest.cpus * count)
    memory = 1 - sum(need.memory_mib for need in needs) / max(1, largest.memory_mib * count)
    return max(cpus, memory if largest.memory_mib else 0.0)


def _largest(needs: Sequence[Need]) -> Need:
    cpus = max(need.cpus for need in needs)
    return replace(needs[0], cpus=cpus, memory_mib=max(need.memory_mib for need in needs))


def _make_part(first: int, members: _Members) -> ShapePart:
    role, need = members[-1][0], _largest([need for _, need in members])
    other_role_count = sum(1 for member_role, _ in members if member_role is not role)
    if len(members) > 1:  # Slurm may put several on a node, and so gives each CPU whole MiB
        need = replace(need, memory_mib=-(-need.memory_mib // need.cpus) * need.cpus)
    return ShapePart(
        first=first,
        count=len(members),
        need=need,
        role=role,
        other_role_count=other_role_count,
    )


def _per_node(part: ShapePart, fitting: Callable[[Need], int]) -> int:
    nodes = fitting(part.need)
    return 1 if not nodes else math.ceil(part.count / nodes)


def roles_of(demand: JobDemand) -> list[Role]:
    """List the roles of all replicas in the order of a plan: by group, the primary first."""
    groups = sorted(demand.groups, key=lambda group: group.role is not Role.PRIMARY)
    return [group.role for group in groups for _ in range(group.count)]
