"""Tracks the free room of nodes while jobs start and end.

Taking and releasing room changes a few numbers and recounts nothing.  So the cost depends on the
number of changes, not on the number of nodes and jobs.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy

from trainshed.model.resources import Demand, JobDemand, Node, Seat
from trainshed.placement.candidates import Candidates
from trainshed.placement.jobs import HeldJob
from trainshed.placement.topology import ANYWHERE, SLOTS, ReplicaRequest, Topology, Where

#: (node, position in its room, amount): the resources that a job has taken.
Taken = tuple[tuple[int, int, int], ...]

#: The most cached candidates of all sizes, each about 300 bytes; above it, all are dropped.
_CANDIDATES_MAX = 200_000


class FleetUsage:
    """The free room of every node, and the room that each job uses.

    An overfull node (it shrank, or a job was placed by hand) has negative room: it takes no new
    replica until enough jobs have left.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.rooms = topology.rooms()
        self._taken: dict[int, Taken] = {}
        self._candidates: dict[tuple[Where, Demand], Candidates] = {}
        self._changed: list[int] = []
        self._candidate_count = 0

    @classmethod
    def of(cls, nodes: Iterable[Node], held: Iterable[HeldJob] = ()) -> "FleetUsage":
        """Return the usage of these nodes by these jobs."""
        fleet = cls(Topology(nodes))
        for job in held:
            fleet.take(job.uid, job.demand, job.seats)
        return fleet

    def copy(self, *, candidates: bool = True) -> "FleetUsage":
        """Return an independent copy.

        Without ``candidates``, the copy computes its candidates again; use this for few queries.
        """
        new = copy(self)
        new.detach(candidates=candidates)
        return new

    def detach(self, *, candidates: bool) -> None:
        """Replace the containers that this copy shares with its original."""
        self.rooms = [list(room) for room in self.rooms]
        self._taken = dict(self._taken)
        entries = self._candidates.items() if candidates else ()
        self._candidates = {key: candidates.copy() for key, candidates in entries}
        self._changed = list(self._changed)

    def take(self, uid: int, demand: JobDemand, seats: Sequence[Seat]) -> None:
        """Count a job's seats as used, even if the nodes have no room for them.

        Replaces the job's earlier seats.  A seat on a removed node uses nothing.
        """
        self.release(uid)
        sizes = {group.role: group.each for group in demand.groups}
        counts = Counter((self.topology.find(seat), seat.role) for seat in seats)
        taken: list[tuple[int, int, int]] = []
        for (node, role), count in counts.items():
            if node is not None:
                request = self.topology.request(node, ANYWHERE, sizes.get(role, Demand()))
                taken += self.occupy(
                    node, request or ReplicaRequest(((SLOTS, 1),), (), 0, 0), count
                )
        self._taken[uid] = tuple(taken)

    def release(self, uid: int) -> None:
        """Release a job's room; does nothing for a job without any."""
        for node, place, amount in self._taken.pop(uid, ()):
            self.rooms[node][place] += amount
            self._changed.append(node)

    def taken(self, uid: int) -> Taken:
        """Return the room that a job uses."""
        return self._taken.get(uid, ())

    def holders(self) -> Mapping[int, Taken]:
        """Return the room that each job uses, by uid."""
        return self._taken

    def keep(self, uid: int, taken: Taken) -> None:
        """Assign to a job the room that ``occupy`` has taken."""
        self._taken[uid] = taken

    def take_same(self, uid: int, taken: Taken) -> None:
        """Take for a job the same room as on a copy of this fleet."""
        for node, place, amount in taken:
            self.rooms[node][place] -= amount
            self._changed.append(node)
        self._taken[uid] = taken

    def occupy(self, node: int, request: ReplicaRequest, count: int) -> list[tuple[int, int, int]]:
        """Take room for replicas on a node; return it, for ``keep`` or ``give_back``."""
        room = self.rooms[node]
        taken = [(node, place, amount * count) for place, amount in request.common]
        for _, place, amount in taken:
            room[place] -= amount
        for _ in range(count if len(request.pools) > 1 else 0):
            pool = request.pool(room)
            room[pool] -= request.per_replica
            taken.append((node, pool, request.per_replica))
        self._changed.append(node)
        return taken

    def give_back(self, taken: Iterable[tuple[int, int, int]]) -> None:
        """Undo ``occupy``."""
        for node, place, amount in taken:
            self.rooms[node][place] += amount
            self._changed.append(node)

    def set_room(self, node: int, room: list[int]) -> None:
        """Set the free room of a node, regardless of jobs."""
        self.rooms[node] = room
        self._changed.append(node)

    def candidates(self, where: Where, replica: Demand) -> Candidates:
        """Return the current candidates for replicas of one size."""
        if len(self._changed) > 4 * len(self.rooms) + 64:
            self._forget_old()
        candidates = self._candidates.get((where, replica))
        if candidates is None:
            candidates = Candidates(self.topology, self.rooms, where, replica)
            self._candidate_count += len(candidates)
            if self._candidate_count > _CANDIDATES_MAX:
                self._candidates.clear()
                self._candidate_count = len(candidates)
            self._candidates[where, replica] = candidates
        elif candidates.cursor < len(self._changed):
            for node in set(self._changed[candidates.cursor :]):
                candidates.look_at(node, self.rooms[node])
        candidates.cursor = len(self._changed)
        return candidates

    def _forget_old(self) -> None:
        """Clear the list of changes; drop the candidates that have not applied all of them."""
        change_count = len(self._changed)
        self._candidates = {
            key: candidates
            for key, candidates in self._candidates.items()
            if candidates.cursor == change_count
        }
        for candidates in self._candidates.values():
            candidates.cursor = 0
        self._changed.clear()
