"""The nodes of a fleet without their jobs: sizes, kinds, and what a replica needs on each kind.

A node's room is a list of whole numbers: slots, vCPUs, memory (MiB), then GPUs by type in the order
of their names.  Whole numbers make taking and releasing exact.  Nodes that differ in size only are
of one kind; a replica's needs are computed once for each kind.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from trainshed.model.bounded import BoundedDict
from trainshed.model.resources import (
    ANY_GPU,
    Demand,
    FleetPolicy,
    GroupDemand,
    JobDemand,
    Node,
    NodeState,
    Seat,
    shown_name,
)

SLOTS, VCPUS, MEMORY, GPUS = 0, 1, 2, 3

#: How well a node matches the request: the GPU type itself, a replacement, or no GPU.
OWN_TYPE, STAND_IN, EMULATED = 0, 1, 2

#: The most cached shapes; above it, the cache drops entries and computes them again.
_REMEMBERED_MAX = 8192


@dataclass(frozen=True, slots=True)
class ReplicaRequest:
    """The resources that one replica requests on a node of one kind.

    ``common`` are (position in the room, amount).  ``pools`` are the positions of the usable GPU
    types.  With several types, each replica takes ``per_replica`` GPUs of one type, so a replica
    never has mixed hardware.  With one type, its GPUs are in ``common``.
    """

    common: tuple[tuple[int, int], ...]
    pools: tuple[int, ...]
    per_replica: int
    tier: int

    def fits(self, room: Sequence[int]) -> int:
        """Return how many such replicas a room holds; zero or less for none."""
        most = room[SLOTS]
        for place, amount in self.common:
            fitting = room[place] // amount
            most = min(most, fitting)
        if len(self.pools) > 1:
            most = min(most, sum(max(room[p], 0) // self.per_replica for p in self.pools))
        return most

    def pool(self, room: Sequence[int]) -> int:
        """Return the position of the GPU type for a replica.

        That is the type with the fewest free GPUs that suffice, else with the most free GPUs.
        """
        enough = [p for p in self.pools if room[p] >= self.per_replica]
        if enough:
            return min(enough, key=lambda p: room[p])
        return max(self.pools, key=lambda p: room[p])


@dataclass(frozen=True, slots=True)
class ReplicaBatch:
    """All replicas of a job, of any group, that request the same resources of a node."""

    replica: Demand
    count: int
    groups: tuple[GroupDemand, ...]


class Where(NamedTuple):
    """The nodes that a job may use, by region and engine; None restricts nothing."""

    region: str | None = None
    engine: str | None = None


#: No restriction, for seats that are already in use.
ANYWHERE: Final = Where()


@dataclass(frozen=True, slots=True)
class DemandShape:
    """A job's demand on this fleet, largest replicas first.

    ``key`` is equal for jobs that fit on exactly the same nodes.
    """

    where: Where
    batches: tuple[ReplicaBatch, ...]
    key: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Kind:
    engine: str
    region: str | None
    policy: FleetPolicy
    types: tuple[str, ...]
    alias: tuple[tuple[str, str], ...]


class Topology:
    """The nodes, sorted by engine and name.  It never changes, so copies of a fleet share it."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        """Read every node once; of two nodes with the same engine and name, keep the later."""
        named = {(node.engine, node.name): node for node in nodes}
        self.nodes = tuple(named[name] for name in sorted(named))
        self._index = {(node.engine, node.name): i for i, node in enumerate(self.nodes)}
        self._unnamed = {node.name: i for i, node in reversed(list(enumerate(self.nodes)))}
        self._engines = {node.engine for node in self.nodes}
        self.ready = [node.state is NodeState.READY for node in self.nodes]
        kinds: dict[_Kind, int] = {}
        self._kind_of = [kinds.setdefault(_kind(node), len(kinds)) for node in self.nodes]
        self._kinds = tuple(kinds)
        self._of_kind: list[list[int]] = [[] for _ in kinds]
        for i, kind in enumerate(self._kind_of):
            self._of_kind[kind].append(i)
        self.regions = {kind.region for kind in kinds if kind.region is not None}
        self.gpu_names = {name for kind in kinds for name in (*kind.types, *dict(kind.alias))}
        self._has_exact = any(n.policy is FleetPolicy.EXACT for n in self.nodes)
        self._requests = BoundedDict[tuple[Where, Demand], tuple[ReplicaRequest | None, ...]](
            _REMEMBERED_MAX
        )
        self._shapes = BoundedDict[JobDemand, DemandShape](_REMEMBERED_MAX)

    def find(self, seat: Seat) -> int | None:
        """Return the node of a seat; None if it was removed.

        For a seat without an engine name, search the first engine.
        """
        if seat.engine:
            return self._index.get((seat.engine, seat.node))
        return self._unnamed.get(seat.node)

    def name(self, node: int) -> str:
        """Return a node's name for messages, with its engine if there are several engines."""
        return shown_name(self.nodes[node], several=len(self._engines) > 1)

    def rooms(self) -> list[list[int]]:
        """Return the room of every empty node."""
        return [
            [node.slots, node.vcpus, math.floor(node.memory_gb * 1024)]
            + [node.gpus[kind] - node.gpus_held.get(kind, 0) for kind in sorted(node.gpus)]
            for node in self.nodes
        ]

    def request(self, node: int, where: Where, replica: Demand) -> ReplicaRequest | None:
        """Return a replica's needs of a node; None if the empty node could not hold it."""
        return self.requests(where, replica)[self._kind_of[node]]

    def requests(self, where: Where, replica: Demand) -> tuple[ReplicaRequest | None, ...]:
        """Return a replica's needs of each kind of node."""
        requests = self._requests.get((where, replica))
        if requests is None:
            requests = tuple(_request(kind, where, replica) for kind in self._kinds)
            self._requests[where, replica] = requests
        return requests

    def eligible(self, where: Where, replica: Demand) -> list[tuple[int, ReplicaRequest]]:
        """Return the nodes that could hold such replicas when empty, drained ones too."""
        requests = zip(self.requests(where, replica), self._of_kind, strict=True)
        return [(i, request) for request, nodes in requests if request is not None for i in nodes]

    def shape(self, demand: JobDemand) -> DemandShape:
        """Return the demand as this fleet can distinguish it.

        Replicas of equal size are one batch.  A region, an engine, or a resource that no node of
        this fleet limits is left out.
        """
        shape = self._shapes.get(demand)
        if shape is None:
            shape = self._shapes[demand] = self._shape(demand)
        return shape

    def _shape(self, demand: JobDemand) -> DemandShape:
        members: dict[Demand, list[GroupDemand]] = {}
        for group in demand.groups:
            if group.count > 0:
                members.setdefault(self._normalize(group.each), []).append(group)
        batches = tuple(
            ReplicaBatch(replica, sum(g.count for g in members[replica]), tuple(members[replica]))
            for replica in sorted(members, key=_size, reverse=True)
        )
        where = Where(
            demand.region if self.regions else None,
            None if self._engines == {demand.engine} else demand.engine,
        )
        return DemandShape(
            where, batches, (where, *((batch.replica, batch.count) for batch in batches))
        )

    def _normalize(self, replica: Demand) -> Demand:
        if not replica.gpu_count:
            replica = replace(replica, gpu_type=None)
        if self._has_exact:
            return replica
        return Demand(gpu_type=replica.gpu_type, gpu_count=replica.gpu_count)


def _size(replica: Demand) -> tuple[object, ...]:
    return (replica.gpu_count, replica.memory_gb, replica.vcpus, replica.gpu_type or "")


def _kind(node: Node) -> _Kind:
    alias = tuple(sorted(node.gpu_alias.items()))
    return _Kind(node.engine, node.region, node.policy, tuple(sorted(node.gpus)), alias)


def _request(kind: _Kind, where: Where, replica: Demand) -> ReplicaRequest | None:
    if None not in (kind.region, where.region) and kind.region != where.region:
        return None
    if where.engine is not None and kind.engine != where.engine:
        return None
    common = [(SLOTS, 1)]
    if kind.policy is FleetPolicy.EMULATE:
        return ReplicaRequest(tuple(common), (), 0, EMULATED if replica.gpu_count else OWN_TYPE)
    if kind.policy is FleetPolicy.EXACT:
        amounts = ((VCPUS, replica.vcpus), (MEMORY, math.ceil(replica.memory_gb * 1024)))
        common += [(place, amount) for place, amount in amounts if amount]
    if not replica.gpu_count:
        return ReplicaRequest(tuple(common), (), 0, OWN_TYPE)
    types = _serving(kind, replica.gpu_type)
    if not types:
        return None
    pools = tuple(GPUS + kind.types.index(name) for name in types)
    if len(pools) == 1:
        common.append((pools[0], replica.gpu_count))
    tier = OWN_TYPE if types[0] == replica.gpu_type else STAND_IN
    return ReplicaRequest(tuple(common), pools, replica.gpu_count, tier)


def _serving(kind: _Kind, gpu_type: str | None) -> list[str]:
    """Return a kind's GPU types that can serve a type, the type itself first.

    A job that names no type takes any.
    """
    stand_in = ANY_GPU if gpu_type is None else dict(kind.alias).get(gpu_type)
    own_types = [name for name in kind.types if name == gpu_type]
    stand_ins = [name for name in kind.types if name != gpu_type and stand_in in (ANY_GPU, name)]
    return own_types + stand_ins
