"""How much room the nodes have, kept as jobs come and go.

Nothing is ever counted anew: taking and giving back change a few numbers, so a fleet of 1,000 nodes
with 5,000 jobs follows at the speed of its changes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy

from trainshed.model.resources import Demand, JobDemand, Node, Seat
from trainshed.placement.candidates import Candidates
from trainshed.placement.jobs import HeldJob
from trainshed.placement.topology import ANYWHERE, SLOTS, ReplicaRequest, Topology, Where

#: (node, place in its room, amount): what a job has taken.
Taken = tuple[tuple[int, int, int], ...]

#: Candidates of all sizes that are kept, each some 300 bytes; beyond it they are found again.
_CANDIDATES_MAX = 200_000


class FleetUsage:
    """The room of every node, and what each job has taken of it.

    A node that holds more than it has (it shrank, or somebody placed by hand) has less than no
    room: it takes nothing new until enough has left.
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
        """The fleet of these nodes with these jobs on them."""
        fleet = cls(Topology(nodes))
        for job in held:
            fleet.take(job.uid, job.demand, job.seats)
        return fleet

    def copy(self, *, candidates: bool = True) -> "FleetUsage":
        """The same room and jobs, to be changed apart; cheap.

        Without ``candidates`` what is asked of it is found anew: for a copy that is asked little.
        """
        new = copy(self)
        new.detach(candidates=candidates)
        return new

    def detach(self, *, candidates: bool) -> None:
        """Stop sharing numbers with the fleet that this one was copied from."""
        self.rooms = [list(room) for room in self.rooms]
        self._taken = dict(self._taken)
        entries = self._candidates.items() if candidates else ()
        self._candidates = {key: one.copy() for key, one in entries}
        self._changed = list(self._changed)

    def take(self, uid: int, demand: JobDemand, seats: Sequence[Seat]) -> None:
        """Count a job's seats as taken, whether or not there is room: they are.

        Replaces what the job had taken.  A seat on a node that is gone takes nothing.
        """
        self.release(uid)
        sizes = {group.role: group.each for group in demand.groups}
        here = Counter((self.topology.find(seat), seat.role) for seat in seats)
        taken: list[tuple[int, int, int]] = []
        for (node, role), count in here.items():
            if node is not None:
                request = self.topology.request(node, ANYWHERE, sizes.get(role, Demand()))
                taken += self.occupy(
                    node, request or ReplicaRequest(((SLOTS, 1),), (), 0, 0), count
                )
        self._taken[uid] = tuple(taken)

    def release(self, uid: int) -> None:
        """Give back what a job has taken; nothing for a job that has taken nothing."""
        for node, place, amount in self._taken.pop(uid, ()):
            self.rooms[node][place] += amount
            self._changed.append(node)

    def taken(self, uid: int) -> Taken:
        """What a job has taken."""
        return self._taken.get(uid, ())

    def holders(self) -> Mapping[int, Taken]:
        """What every job has taken, by uid."""
        return self._taken

    def keep(self, uid: int, taken: Taken) -> None:
        """Write under a job's name what ``occupy`` has taken for it."""
        self._taken[uid] = taken

    def take_same(self, uid: int, taken: Taken) -> None:
        """Take for a job what it has taken of a copy of this fleet."""
        for node, place, amount in taken:
            self.rooms[node][place] -= amount
            self._changed.append(node)
        self._taken[uid] = taken

    def occupy(self, node: int, request: ReplicaRequest, count: int) -> list[tuple[int, int, int]]:
        """Put replicas on a node; answers what they took, to be kept or given back."""
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
        """Say what room a node has, whatever the jobs took."""
        self.rooms[node] = room
        self._changed.append(node)

    def candidates(self, where: Where, replica: Demand) -> Candidates:
        """The nodes for replicas of one size, as they are now."""
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
        """Shorten the list of changes; who has not followed them begins anew."""
        change_count = len(self._changed)
        self._candidates = {
            key: one for key, one in self._candidates.items() if one.cursor == change_count
        }
        for one in self._candidates.values():
            one.cursor = 0
        self._changed.clear()
