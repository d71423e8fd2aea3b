"""What the policy of a replica's node means for its devices, and for what its job is told."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.resources import FleetPolicy, Node, Seat
from trainshed.model.roles import Role

_Nodes = Mapping[tuple[Role, int], Node]


def as_placed(
    replicas: Sequence[ReplicaPlan], seats: Sequence[Seat], nodes: Mapping[str, Node]
) -> tuple[ReplicaPlan, ...]:
    """The replicas with the devices that their nodes give: none on one that emulates."""
    found = _by_replica(seats, nodes)
    return tuple(
        replace(replica, gpu_count=0, gpu_type=None) if _emulates(replica, found) else replica
        for replica in replicas
    )


def placing_notes(
    replicas: Sequence[ReplicaPlan], seats: Sequence[Seat], nodes: Mapping[str, Node]
) -> tuple[str, ...]:
    """Where a job gets other devices than it asked for, or none, a sentence each."""
    found = _by_replica(seats, nodes)
    return tuple(dict.fromkeys(note for replica in replicas for note in _notes(replica, found)))


def _notes(replica: ReplicaPlan, nodes: _Nodes) -> Iterator[str]:
    node = nodes.get((replica.role, replica.index))
    if node is None or not replica.gpu_count:
        return
    kind = replica.gpu_type or "GPU"
    if node.policy is FleetPolicy.EMULATE:
        yield (
            f"Node {node.name} emulates accelerators: replicas that asked for "
            f"{replica.gpu_count} {kind} run without GPUs."
        )
    elif kind not in node.gpus and (alias := node.gpu_alias.get(kind)):
        yield f"Node {node.name} gives {alias} GPUs in the place of {kind}."


def _emulates(replica: ReplicaPlan, nodes: _Nodes) -> bool:
    node = nodes.get((replica.role, replica.index))
    return node is not None and node.policy is FleetPolicy.EMULATE


def _by_replica(seats: Sequence[Seat], nodes: Mapping[str, Node]) -> _Nodes:
    return {(seat.role, seat.index): nodes[seat.node] for seat in seats if seat.node in nodes}
