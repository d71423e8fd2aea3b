"""Describes the allocation of an attempt, its components, and the steps that start wardens.

Consecutive replicas with the same resources make one component.  One component is a plain job;
several are a heterogeneous job, whose components never share a node.  With packing, all
replicas share one allocation of equal nodes, and a step for each component runs on these nodes.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    """Maximum number of replicas on a node; None: Slurm distributes the replicas."""

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


def need_of(demand: Demand, policy: FleetPolicy) -> Need:
    """Convert a demand; CPUs and memory count only with the policy ``exact``."""
    exact = policy is FleetPolicy.EXACT
    return Need(
        cpus=max(1, demand.vcpus) if exact else 1,
        memory_mib=math.ceil(demand.memory_gb * _MIB_PER_GB) if exact else 0,
        gpu_type=demand.gpu_type if demand.gpu_count else None,
        gpus=demand.gpu_count,
    )


def shape_of(
    roles: Sequence[Role],
    demand: JobDemand,
    policy: FleetPolicy,
    *,
    packing: bool,
    fitting: Callable[[Need], int] = lambda _: 0,
) -> JobShape:
    """Return the shape for replicas in the order of their plan.

    ``fitting`` returns the number of nodes that can hold a replica.  If these are fewer than the
    replicas with GPUs, several replicas share a node.
    """
    needs = {
        replica_group.role: need_of(replica_group.each, policy) for replica_group in demand.groups
    }
    rows = [(role, needs.get(role, Need())) for role in roles]
    parts, first = [], 0
    for need, group in groupby(rows, key=lambda row: row[1]):
        members = list(group)
        count = len(members)
        per_node = _per_node(count, need, fitting) if need.gpus else None
        role = members[-1][0]
        other_role_count = sum(1 for member_role, _ in members if member_role is not role)
        parts.append(
            ShapePart(
                first=first,
                count=count,
                need=need,
                role=role,
                other_role_count=other_role_count,
                per_node=per_node,
            )
        )
        first += count
    can_pack = packing and len(parts) > 1 and sum(1 for part in parts if part.need.gpus) <= 1
    return JobShape(parts=tuple(parts), packed=can_pack)


def _per_node(count: int, need: Need, fitting: Callable[[Need], int]) -> int:
    nodes = fitting(need)
    return 1 if not nodes else math.ceil(count / nodes)


def roles_of(demand: JobDemand) -> list[Role]:
    """List the roles of all replicas in the order of a plan: by group, the primary first."""
    groups = sorted(demand.groups, key=lambda group: group.role is not Role.PRIMARY)
    return [group.role for group in groups for _ in range(group.count)]
