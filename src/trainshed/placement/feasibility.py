"""Checks at submission whether a job could ever run on this fleet."""

from collections.abc import Sequence
from dataclasses import replace

from trainshed.model.explanation import Explanation, Reason
from trainshed.model.resources import JobDemand, Node, NodeState, Seat
from trainshed.placement import messages
from trainshed.placement.change import admitting_change
from trainshed.placement.fleet import FleetUsage
from trainshed.placement.gang import place
from trainshed.placement.jobs import QuotaRule
from trainshed.placement.quota import Quotas
from trainshed.placement.shortage import Shortage
from trainshed.placement.topology import DemandShape, Topology

_UID = -1


class Feasibility:
    """Checks jobs against the empty fleet, with its drained nodes, which may be resumed later.

    Results are cached.
    """

    def __init__(self, nodes: Sequence[Node], quotas: Sequence[QuotaRule] = ()) -> None:
        """Take the nodes as if they were empty."""
        nodes = [replace(n, gpus_held={}, devices=()) if n.gpus_held else n for n in nodes]
        ready = [replace(node, state=NodeState.READY) for node in nodes]
        self._all = FleetUsage(Topology(ready))
        drained = any(node.state is not NodeState.READY for node in nodes)
        self._ready = FleetUsage(Topology(nodes)) if drained else self._all
        self._quotas = Quotas(quotas)
        self._shortage = Shortage(self._all)
        self._blocking_reasons: dict[object, Reason | None] = {}

    def judge(self, project: str, demand: JobDemand) -> Explanation | None:
        """Return why a job can never run, with one change that would admit it; None if it can."""
        too_large = self._quotas.too_large(project, demand)
        blocking_reason = self.blocking_reason(demand)
        if not too_large and blocking_reason is not Reason.NO_SUCH_NODE:
            return None

        def admits(changed: JobDemand) -> bool:
            fits = self.blocking_reason(changed) is not Reason.NO_SUCH_NODE
            return fits and not self._quotas.too_large(project, changed)

        change = admitting_change(demand, self._all.topology, admits, messages.COULD_RUN)
        if blocking_reason is Reason.NO_SUCH_NODE:
            message = self.no_such_node(demand)
            return Explanation(reason=blocking_reason, message=message, change=change)
        why = self.too_large(project, demand)
        return why and replace(why, change=change)

    def seats(self, demand: JobDemand) -> Sequence[Seat]:
        """Place a job on the empty fleet; no seats if no nodes can hold it."""
        return _place(self._ready, demand) or _place(self._all, demand) or ()

    def too_large(self, project: str, demand: JobDemand) -> Explanation | None:
        """Return why a job can never run on any nodes: it exceeds a quota by itself."""
        claims = self._quotas.too_large(project, demand)
        if not claims:
            return None
        return Explanation(
            reason=Reason.QUOTA,
            message=messages.too_large(claims[0]),
            blockers=tuple(str(claim.bucket) for claim in claims),
        )

    def no_such_node(self, demand: JobDemand) -> str:
        """Return in a sentence which resources the whole fleet lacks."""
        return f"{self._shortage.of(demand)}, with the whole fleet empty"

    def blocking_reason(self, demand: JobDemand) -> Reason | None:
        """Return NO_SUCH_NODE, DRAINED if only drained nodes could hold the job, or None."""
        shape = self._all.topology.shape(demand)
        if shape.key not in self._blocking_reasons:
            self._blocking_reasons[shape.key] = self._compute_reason(demand, shape)
        return self._blocking_reasons[shape.key]

    def _compute_reason(self, demand: JobDemand, shape: DemandShape) -> Reason | None:
        if not shape.batches or _place(self._ready, demand) is not None:
            return None
        is_drained = _place(self._all, demand) is not None
        return Reason.DRAINED if is_drained else Reason.NO_SUCH_NODE


def _place(fleet: FleetUsage, demand: JobDemand) -> tuple[Seat, ...] | None:
    seats = place(fleet, _UID, demand)
    fleet.release(_UID)
    return seats
