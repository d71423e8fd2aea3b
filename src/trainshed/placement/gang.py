"""Finds places for all replicas of a job at once, or none.

Replicas of equal size are placed together, on few nodes; replicas with more GPUs come first.  The
algorithm fills the nodes with the most room until the remaining replicas fit on one node.  It puts
these on the node with the least sufficient room.  For replicas of equal size, and for sizes that
divide each other, as GPU counts do, this uses the fewest nodes and finds a placement if one exists.
For other sizes the problem is bin packing, so the algorithm then tries other orders.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, permutations

from trainshed.model.resources import JobDemand, Seat
from trainshed.model.roles import Role
from trainshed.placement.fleet import FleetUsage
from trainshed.placement.topology import EMULATED, DemandShape, ReplicaBatch, Where

#: How many orders of batches are tried; jobs have two or three batches at most in practice.
_ORDERS_MAX = 6

#: The most replicas of a job for which other orders are tried: large jobs take long.
_REPLICAS_FOR_ORDERS_MAX = 64

_Taken = list[tuple[int, int, int]]


def place(fleet: FleetUsage, uid: int, demand: JobDemand) -> tuple[Seat, ...] | None:
    """Take seats for all replicas under ``uid``; take none and return None if they do not fit.

    The same fleet gives the same seats, in the order of the job's groups.
    """
    shape = fleet.topology.shape(demand)
    if not has_room(fleet, shape):
        return None
    for batches, few_nodes in _attempts(shape):
        taken: _Taken = []
        nodes = _place_batches(fleet, shape.where, batches, taken, few_nodes=few_nodes)
        if nodes is not None:
            fleet.keep(uid, tuple(taken))
            return _seats(fleet, demand, nodes)
        fleet.give_back(taken)
    return None


def place_at(fleet: FleetUsage, uid: int, demand: JobDemand, seats: Sequence[Seat]) -> bool:
    """Take exactly these seats under ``uid`` if all are free; return whether they were taken."""
    topology = fleet.topology
    nodes = [topology.find(seat) for seat in seats]
    shape = topology.shape(demand)
    for batch in shape.batches:
        roles = {group.role for group in batch.groups}
        for node, seat in zip(nodes, seats, strict=True):
            serves = node is not None and topology.ready[node]
            if seat.role in roles and not (
                serves and node is not None and topology.request(node, shape.where, batch.replica)
            ):
                return False
    fleet.take(uid, demand, seats)
    if any(fleet.rooms[node][at] < 0 for node, at, amount in fleet.taken(uid) if amount):
        fleet.release(uid)
        return False
    return True


def has_room(fleet: FleetUsage, shape: DemandShape) -> bool:
    """Whether each batch would fit alone: a quick, necessary condition."""
    return all(
        sum(fleet.candidates(shape.where, batch.replica).totals) >= batch.count
        for batch in shape.batches
    )


def _attempts(shape: DemandShape) -> Iterator[tuple[tuple[ReplicaBatch, ...], bool]]:
    """Yield orders of batches, the best first, each with whether to prefer few nodes."""
    yield shape.batches, True
    if (
        len(shape.batches) > 1
        and sum(batch.count for batch in shape.batches) <= _REPLICAS_FOR_ORDERS_MAX
    ):
        yield shape.batches, False
        for batches in islice(permutations(shape.batches), 1, _ORDERS_MAX):
            yield batches, True
            yield batches, False


def _place_batches(
    fleet: FleetUsage,
    where: Where,
    batches: Sequence[ReplicaBatch],
    taken: _Taken,
    *,
    few_nodes: bool,
) -> dict[Role, list[int]] | None:
    """Return the node of each replica by role; None if a batch does not fit.

    Add the used room to ``taken`` in both cases.
    """
    nodes: dict[Role, list[int]] = {}
    for batch in batches:
        used = (
            dict.fromkeys(node for batch_nodes in nodes.values() for node in batch_nodes)
            if few_nodes
            else {}
        )
        batch_nodes = _place_batch(fleet, where, batch, taken, (tuple(used), few_nodes))
        if batch_nodes is None:
            return None
        for group in batch.groups:
            nodes[group.role], batch_nodes = batch_nodes[: group.count], batch_nodes[group.count :]
    return nodes


def _place_batch(
    fleet: FleetUsage,
    where: Where,
    batch: ReplicaBatch,
    taken: _Taken,
    preference: tuple[tuple[int, ...], bool],
) -> list[int] | None:
    """Return the nodes of a batch's replicas, first those that the job uses; None without room."""
    near, few_nodes = preference
    nodes: list[int] = []
    for node in near:
        fits = fleet.candidates(where, batch.replica).fits.get(node, 0)
        _settle(fleet, where, batch, (node, min(fits, batch.count - len(nodes))), (taken, nodes))
    for tier in _tiers(fleet.candidates(where, batch.replica).totals, batch.count - len(nodes)):
        while missing := batch.count - len(nodes):
            candidates = fleet.candidates(where, batch.replica)
            best = candidates.best(tier, missing if few_nodes else 1)
            if best is None:
                break
            target = (best, min(candidates.fits[best], missing))
            _settle(fleet, where, batch, target, (taken, nodes))
    return nodes if len(nodes) == batch.count else None


def _settle(
    fleet: FleetUsage,
    where: Where,
    batch: ReplicaBatch,
    target: tuple[int, int],
    progress: tuple[_Taken, list[int]],
) -> None:
    node, count = target
    taken, nodes = progress
    request = fleet.topology.request(node, where, batch.replica)
    if request is not None and count > 0:
        taken += fleet.occupy(node, request, count)
        nodes += [node] * count


def _tiers(totals: Sequence[int], count: int) -> range | list[int]:
    """Return the best tier that has room for all replicas, else all tiers in order.

    Replicas on nodes of different tiers train slowly together.
    """
    enough = [tier for tier, total in enumerate(totals) if total >= count]
    return enough[:1] or range(EMULATED + 1)


def _seats(fleet: FleetUsage, demand: JobDemand, nodes: dict[Role, list[int]]) -> tuple[Seat, ...]:
    fleet_nodes = fleet.topology.nodes
    return tuple(
        Seat(
            role=group.role,
            index=index,
            node=fleet_nodes[node].name,
            engine=fleet_nodes[node].engine,
        )
        for group in demand.groups
        for index, node in enumerate(nodes.get(group.role, ()))
    )
