"""Whether a job could ever run: asked at submit, so that no job waits for what cannot come."""

from collections.abc import Sequence
from dataclasses import replace

from trainshed.model.explanation import Explanation, Reason
from trainshed.model.resources import JobDemand, Node, NodeState
from trainshed.placement import words
from trainshed.placement.change import admitting_change
from trainshed.placement.fleet import Fleet
from trainshed.placement.gang import place
from trainshed.placement.ground import Ground, Shape
from trainshed.placement.quota import Quotas
from trainshed.placement.request import QuotaRule
from trainshed.placement.shortage import Shortage

_UID = -1


def can_ever(
    project: str, demand: JobDemand, nodes: Sequence[Node], quotas: Sequence[QuotaRule]
) -> Explanation | None:
    """None when an empty fleet could hold the job and its quotas alone admit it; else why not.

    A drained node counts: it comes back.  Who asks often keeps a ``Possible`` instead.
    """
    return Possible(nodes, quotas).judge(project, demand)


class Possible:
    """What an empty fleet can hold.  Answers are remembered, so asking again is cheap."""

    def __init__(self, nodes: Sequence[Node], quotas: Sequence[QuotaRule] = ()) -> None:
        """Look at the nodes as if nobody were on them."""
        nodes = [replace(node, gpus_held={}) if node.gpus_held else node for node in nodes]
        ready = [replace(node, state=NodeState.READY) for node in nodes]
        self._all = Fleet(Ground(ready))
        drained = any(node.state is not NodeState.READY for node in nodes)
        self._ready = Fleet(Ground(nodes)) if drained else self._all
        self._quotas = Quotas(quotas)
        self._shortage = Shortage(self._all)
        self._hindrances: dict[object, Reason | None] = {}

    def judge(self, project: str, demand: JobDemand) -> Explanation | None:
        """Why a job can never run, with one change that would let it; None when it can."""
        beyond = self._quotas.beyond(project, demand)
        hindrance = self.hindrance(demand)
        if not beyond and hindrance is not Reason.NO_SUCH_NODE:
            return None

        def admits(changed: JobDemand) -> bool:
            fits = self.hindrance(changed) is not Reason.NO_SUCH_NODE
            return fits and not self._quotas.beyond(project, changed)

        change = admitting_change(demand, self._all.ground, admits, words.COULD_RUN)
        if hindrance is Reason.NO_SUCH_NODE:
            message = self.no_such_node(demand)
            return Explanation(reason=hindrance, message=message, change=change)
        return Explanation(
            reason=Reason.QUOTA,
            message=words.beyond(beyond[0]),
            blockers=tuple(str(claim.pot) for claim in beyond),
            change=change,
        )

    def no_such_node(self, demand: JobDemand) -> str:
        """What of the demand the whole fleet lacks, as a sentence."""
        return f"{self._shortage.of(demand)}, with the whole fleet empty"

    def hindrance(self, demand: JobDemand) -> Reason | None:
        """NO_SUCH_NODE, DRAINED where only drained nodes would do, or None."""
        shape = self._all.ground.shape(demand)
        if shape.key not in self._hindrances:
            self._hindrances[shape.key] = self._look(demand, shape)
        return self._hindrances[shape.key]

    def _look(self, demand: JobDemand, shape: Shape) -> Reason | None:
        if not shape.runs or _holds(self._ready, demand):
            return None
        return Reason.DRAINED if _holds(self._all, demand) else Reason.NO_SUCH_NODE


def _holds(fleet: Fleet, demand: JobDemand) -> bool:
    found = place(fleet, _UID, demand)
    fleet.release(_UID)
    return found is not None
