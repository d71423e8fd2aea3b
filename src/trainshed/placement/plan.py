"""The planner: decides which queued jobs start now, and why the others wait.

It keeps the fleet between passes, because rebuilding it would cost more than a pass.  The rules of
a pass are in ``planning_pass``.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from trainshed.model.explanation import Change, Explanation
from trainshed.model.resources import JobDemand, Node, Seat
from trainshed.placement.explain import Explainer
from trainshed.placement.feasibility import Feasibility
from trainshed.placement.fleet import FleetUsage
from trainshed.placement.jobs import HeldJob, PlacementPlan, QueuedJob, QuotaRule
from trainshed.placement.offers import Offers, offer, without
from trainshed.placement.planning_pass import PlanningPass
from trainshed.placement.quota import Quotas
from trainshed.placement.reservation import Reservation

#: The most jobs with a separate pass to find their change (see ``offers``).
_APART_MAX = 4


class Planner:
    """Keeps the fleet between passes, so that the cost of a pass depends on the changes."""

    def __init__(self, quotas: Sequence[QuotaRule] = ()) -> None:
        """Start with no nodes and no jobs."""
        self._nodes: tuple[Node, ...] = ()
        self._fleet = FleetUsage.of(())
        self._feasibility = Feasibility(())
        self._quotas = Quotas(quotas)
        self._held: dict[int, HeldJob] = {}
        self._ends: list[tuple[float, int]] = []
        self.reservation: Reservation | None = None
        """The reserved start that the last pass granted; None if no job waits for room."""

    def set_nodes(self, nodes: Sequence[Node]) -> None:
        """Set the nodes of the fleet; cheap if they have not changed."""
        if tuple(nodes) == self._nodes:
            return
        self._nodes = tuple(nodes)
        self._fleet = FleetUsage.of(self._nodes, self._held.values())
        self._feasibility = Feasibility(self._nodes)

    def never(self, demand: JobDemand) -> Explanation | None:
        """Return why the empty fleet could not hold a job; ignores quotas."""
        return self._feasibility.judge("", demand)

    def hold(self, job: HeldJob) -> None:
        """Count a job's seats and quota as taken; replace the earlier ones of the same uid."""
        if self._held.get(job.uid) == job:
            return
        self.release(job.uid)
        self._held[job.uid] = job
        insort(self._ends, (job.ends_at_s, job.uid))
        self._fleet.take(job.uid, job.demand, job.seats)
        self._quotas.take(job.uid, job.project, job.demand)

    def release(self, uid: int) -> None:
        """Release a job's seats and quota; does nothing for an unknown uid."""
        job = self._held.pop(uid, None)
        if job is not None:
            del self._ends[bisect_left(self._ends, (job.ends_at_s, uid))]
            self._fleet.release(uid)
            self._quotas.release(uid)

    def plan(
        self,
        queue: Sequence[QueuedJob],
        now_s: float,
        *,
        explain_uids: Collection[int] = (),
        explain_max: int = 50,
        start: Callable[[Mapping[int, Sequence[Seat]]], None] | None = None,
    ) -> PlacementPlan:
        """Plan one pass over the queue, which may have any order.

        ``now_s`` is the time in seconds, on the same clock as ``HeldJob.ends_at_s``.

        The plan places or explains every job of the queue.  It also names a change that would admit
        the job, for the first ``explain_max`` waiting jobs and for ``explain_uids``.  Placed jobs
        are not held until ``hold`` is called for them.  Held jobs are not planned again.
        The planner calls ``start`` with the placed jobs before it searches for changes, which takes
        longer than the rest of the pass.  ``start`` may call ``hold``.

        Between passes the planner remembers only the reservation.
        """
        queue = [job for job in queue if job.uid not in self._held]
        offers = Offers(explain_uids, explain_max)
        finished_pass = self._begin(now_s)
        for state in finished_pass.run(queue, self.reservation):
            offers.collect(state)
        explainer = Explainer(finished_pass, self._held)
        waiting = {uid: explainer.explain(wait) for uid, wait in finished_pass.waits.items()}
        finished_pass.close()
        self.reservation = finished_pass.reservation
        if start is not None:
            start(finished_pass.placed)
            queue = [job for job in queue if job.uid not in self._held]
        changes = offers.changes | self._find_separate_changes(
            offers.apart, queue, now_s, explain_uids
        )
        return PlacementPlan(placed=finished_pass.placed, waiting=_with_changes(waiting, changes))

    def forecast(
        self, queue: Sequence[QueuedJob], job: QueuedJob, now_s: float
    ) -> Explanation | Sequence[Seat]:
        """Return why a job that joins the queue now would wait, or its seats if it would start.

        The explanation has a change that would admit the job, if there is one.  The planner forgets
        the pass.
        """
        queue = [*(other for other in queue if other.uid not in self._held), job]
        offers = Offers((job.uid,), 0)
        finished_pass = self._begin(now_s)
        for state in finished_pass.run(queue, self.reservation):
            offers.collect(state)
        wait = finished_pass.waits.get(job.uid)
        why = Explainer(finished_pass, self._held).explain(wait) if wait else None
        finished_pass.close()
        if why is None:
            return finished_pass.placed[job.uid]
        changes = offers.changes | self._find_separate_changes(
            offers.apart, queue, now_s, (job.uid,)
        )
        return replace(why, change=changes.get(job.uid))

    def _begin(self, now_s: float) -> PlanningPass:
        return PlanningPass(self._fleet, self._quotas, self._feasibility, self._ends, now_s)

    def _find_separate_changes(
        self,
        jobs: Sequence[QueuedJob],
        queue: Sequence[QueuedJob],
        now_s: float,
        explain_uids: Collection[int],
    ) -> dict[int, Change | None]:
        """Search for changes for jobs that block others: the first few and ``explain_uids``."""
        changes = {}
        for i, job in enumerate(jobs):
            if i < _APART_MAX or job.uid in explain_uids:
                state = self._begin(now_s)
                for _ in state.run(without(queue, job), self.reservation):
                    pass
                changes[job.uid] = offer(state, job)
                state.close()
        return changes


def _with_changes(
    waiting: Mapping[int, Explanation], changes: Mapping[int, Change | None]
) -> dict[int, Explanation]:
    return {uid: replace(why, change=changes.get(uid)) for uid, why in waiting.items()}
