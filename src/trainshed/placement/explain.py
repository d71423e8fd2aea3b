"""Explains in sentences why jobs wait.

An explanation names jobs of the same project only, and counts the jobs of other projects.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property

from trainshed.model.explanation import Explanation, Reason
from trainshed.model.resources import Demand, NodeState
from trainshed.model.texts import format_duration
from trainshed.placement import messages
from trainshed.placement.jobs import HeldJob, QueuedJob
from trainshed.placement.planning_pass import PlanningPass, Wait
from trainshed.placement.quota import QuotaBucket
from trainshed.placement.shortage import Shortage
from trainshed.placement.topology import MEMORY, SLOTS, VCPUS, ReplicaRequest, Where


class Explainer:
    """Explains the waits of one pass.  Use it before the pass is closed."""

    def __init__(self, planning_pass: PlanningPass, held: Mapping[int, HeldJob]) -> None:
        """Take a finished pass; explanations are computed on request."""
        self._pass = planning_pass
        self._held = held
        self._of_quota: dict[tuple[QuotaBucket, ...], tuple[str, ...]] = {}
        self._of_nodes: dict[tuple[Where, str | None], list[int]] = {}
        self._of_room: dict[tuple[Where, str | None, str], tuple[str, ...]] = {}
        self._shortage = Shortage(planning_pass.fleet)

    def explain(self, wait: Wait) -> Explanation:
        """Return the explanation of a wait, without a change that would admit the job."""
        match wait.reason:
            case Reason.QUOTA:
                return self._explain_quota(wait)
            case Reason.BEHIND_QUEUE:
                return self._explain_behind(wait)
            case Reason.RESERVED:
                return self._explain_reserved(wait)
            case Reason.DRAINED:
                return self._explain_drained(wait)
            case Reason.NO_SUCH_NODE:
                message = self._pass.feasibility.no_such_node(wait.job.demand)
                return Explanation(reason=wait.reason, message=message)
            case _:
                return self._explain_capacity(wait)

    def _explain_quota(self, wait: Wait) -> Explanation:
        buckets = tuple(exceeded.claim.bucket for exceeded in wait.exceeded)
        if buckets not in self._of_quota:
            self._of_quota[buckets] = messages.at_most_ten(
                [*map(str, buckets), *self._list_users(buckets)]
            )
        return Explanation(
            reason=wait.reason,
            message=messages.exceeded(wait.exceeded[0]),
            blockers=self._of_quota[buckets],
        )

    def _list_users(self, buckets: Iterable[QuotaBucket]) -> list[str]:
        """List the names of the jobs that use these quotas."""
        uids = dict.fromkeys(uid for bucket in buckets for uid in self._pass.quotas.users(bucket))
        return [self._find_job(uid).name for uid in uids]

    def _find_job(self, uid: int) -> HeldJob | QueuedJob:
        """Find a job that holds seats, was placed in this pass, or has the reservation."""
        job = self._held.get(uid) or self._pass.placed_jobs.get(uid)
        if job is None:
            assert self._pass.reservation is not None, "only the reserved job takes room"  # noqa: S101 - internal check
            job = self._pass.reservation.job
        return job

    def _explain_behind(self, wait: Wait) -> Explanation:
        first = wait.behind
        assert first is not None, "BEHIND_QUEUE names the job ahead"  # noqa: S101 - internal check
        name = _name_for(wait.job, first)
        same = self._pass.same_demand(wait.job, first)
        relation = "which asks for the same" if same else "which waits for the same quota"
        return Explanation(
            reason=wait.reason, message=f"waits behind {name}, {relation}", blockers=(name,)
        )

    def _explain_reserved(self, wait: Wait) -> Explanation:
        first = self._pass.reservation
        assert first is not None, "RESERVED implies a reservation"  # noqa: S101 - internal check
        name = _name_for(wait.job, first.job)
        return Explanation(
            reason=wait.reason,
            message=f"would fit now, and would delay {name}, which "
            f"{self._describe_start(first.start_s)}",
            blockers=(name,),
        )

    def _explain_drained(self, wait: Wait) -> Explanation:
        topology = self._pass.fleet.topology
        shape = topology.shape(wait.job.demand)
        closed = [
            (topology.name(i), node.state)
            for i, node in enumerate(topology.nodes)
            if node.state is not NodeState.READY
            and any(topology.request(i, shape.where, batch.replica) for batch in shape.batches)
        ]
        blockers = messages.at_most_ten([name for name, _ in closed])
        return Explanation(reason=wait.reason, message=messages.drained(closed), blockers=blockers)

    def _explain_capacity(self, wait: Wait) -> Explanation:
        shape = self._pass.fleet.topology.shape(wait.job.demand)
        message = self._shortage.of(wait.job.demand)
        if wait.reserved is not None:
            message = f"{message}; it {self._describe_start(wait.reserved.start_s)}"
        blockers = self._list_blockers(wait.job, shape.where, shape.batches[0].replica)
        return Explanation(reason=wait.reason, message=message, blockers=blockers)

    def _describe_start(self, start_s: float) -> str:
        if start_s == float("inf"):
            return "has the next free place"
        return f"starts in {format_duration(start_s - self._pass.now_s)} at the latest"

    def _list_blockers(self, job: QueuedJob, where: Where, replica: Demand) -> tuple[str, ...]:
        """List the jobs on nodes that could hold the largest replicas, by their end times."""
        key = (where, replica.gpu_type, job.project)
        if key not in self._of_room:
            uids = self._find_holders(where, replica)
            jobs = map(self._find_job, uids)
            own_names = [other.name for other in jobs if other.project == job.project]
            other_count = len(uids) - len(own_names)
            counted = [f"{other_count} of other projects"] if other_count else []
            self._of_room[key] = (*messages.at_most_ten(own_names), *counted)
        return self._of_room[key]

    def _find_holders(self, where: Where, replica: Demand) -> list[int]:
        key = (where, replica.gpu_type)
        if key not in self._of_nodes:
            ranks = {
                rank
                for node, request in self._pass.fleet.topology.eligible(where, replica)
                for at in _scarce(request)
                for rank in self._ranks.get((node, at), ())
            }
            self._of_nodes[key] = [self._pass.ends[rank][1] for rank in sorted(ranks)]
        return self._of_nodes[key]

    @cached_property
    def _ranks(self) -> dict[tuple[int, int], list[int]]:
        """Return, for each resource of each node, the ranks by end time of its jobs."""
        ranks: dict[tuple[int, int], list[int]] = {}
        holdings = self._pass.fleet.holders()
        for rank, (_, uid) in enumerate(self._pass.ends):
            for node, at, _ in holdings.get(uid, ()):
                ranks.setdefault((node, at), []).append(rank)
        return ranks


def _scarce(request: ReplicaRequest) -> Iterable[int]:
    """List the positions, in a node's room, of the resources for which replicas compete."""
    if request.pools:
        return request.pools
    sizes = [at for at, _ in request.common if at in (VCPUS, MEMORY)]
    return sizes or (SLOTS,)


def _name_for(job: QueuedJob, other: QueuedJob) -> str:
    return other.name if other.project == job.project else "a job of another project"
