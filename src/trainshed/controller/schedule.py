"""Schedules waiting jobs, and explains to each of the others why it waits.

One server leads.  It thinks with no transaction open, over the front of the queue; a job's new
state, all its places and its LAUNCH are one write.  A job behind the front gets a
short explanation, which costs the same however long the queue is.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from trainshed.controller import story
from trainshed.controller.holdings import Holdings
from trainshed.controller.leases import Leases
from trainshed.controller.steps import apply_all, placed_rows
from trainshed.controller.worker import Pace
from trainshed.lifecycle import decide
from trainshed.lifecycle.commands import commands_of
from trainshed.lifecycle.events import Placed
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.resource_names import AttemptNumber
from trainshed.model.resources import Node, NodeState, Seat
from trainshed.model.status import JobState
from trainshed.placement.jobs import RUNNING_S_DEFAULT, HeldJob, QueuedJob, QuotaRule
from trainshed.placement.plan import Planner
from trainshed.store.opening import Store
from trainshed.store.records import Holding, Step, WaitingJob

NODES_EVERY_S: Final = 1.0
NEW_MAX: Final = 1000
#: New jobs whose admitting change is sought in their first pass, wherever they stand: it costs.
CHANGES_MAX: Final = 16
_NS: Final = 1_000_000_000


@dataclass(eq=False)
class Scheduler:
    """Plans and places while this server leads."""

    store: Store
    leases: Leases
    holdings: Holdings
    quotas: Sequence[QuotaRule]
    clock: Callable[[], datetime]
    monotonic: Callable[[], float]
    pace: Pace
    _front: Sequence[WaitingJob] = field(default=(), init=False)
    _shown: dict[int, Explanation] = field(default_factory=dict, init=False)
    _departures: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Know nothing before the first pass."""
        self._forget()

    def due(self) -> bool:
        """Whether a pass could find anything new; explains jobs behind the front on the way."""
        if not self.leases.leading:
            self._forget()
            return False
        changed = self._sync()
        new = self._explain_behind(self.store.unexplained(limit=NEW_MAX))
        slow = self._front and self.monotonic() - self._passed_at >= self.pace.slow_s
        return bool(changed or new or slow or self._again)

    def look_at_nodes(self) -> None:
        """Read the nodes anew in the next pass; any thread may say so."""
        self._nodes_at = float("-inf")

    def once(self) -> int:
        """One pass; how many jobs were placed.  0 while another server leads."""
        if not self.leases.leading:
            self._forget()
            return 0
        server = self.leases.name
        self._sync()
        self._passed_at = self.monotonic()
        self._front = self.store.waiting(limit=self.pace.window)
        new = [uid for *_, uid in self.store.unexplained(limit=CHANGES_MAX)]
        queue = [_queued(waiting) for waiting in self._front]
        plan = self._planner.plan(queue, self.clock().timestamp(), explain_uids=new)
        placed = self._place(plan.placed, server)
        self._again = len(placed) < len(plan.placed) or (bool(placed) and self._front_is_full)
        self._explain(
            {uid: why for uid, why in plan.waiting.items() if self._shown.get(uid) != why}
        )
        self._shown = {w.uid: self._shown[w.uid] for w in self._front if w.uid in self._shown}
        return len(placed)

    # what the planner knows

    def _forget(self) -> None:
        """Begin anew: whoever has not led for a while knows nothing."""
        self._planner = Planner(self.quotas)
        self._held: dict[int, int] = {}
        self._synced: Mapping[int, Holding] | None = None
        self._nodes: Sequence[Node] = ()
        self._nodes_at = float("-inf")
        self._passed_at = float("-inf")
        self._again = True
        self._shown.clear()

    def _sync(self) -> bool:
        changed = self._sync_nodes()
        holdings = self.holdings.refresh()
        if self._departures != self.holdings.departures:
            self._departures = self.holdings.departures
            changed = True  # others waited behind those that were cancelled in the queue
        if holdings is self._synced:
            return changed
        self._synced = holdings
        for uid in self._held.keys() - holdings.keys():
            self._planner.release(uid)
            del self._held[uid]
            changed = True
        for uid, holding in holdings.items():
            if self._held.get(uid) != holding.attempt:
                self._planner.release(uid)
                self._hold(holding)
                changed = True
        return changed

    def _sync_nodes(self) -> bool:
        now = self.monotonic()
        if now - self._nodes_at < NODES_EVERY_S:
            return False
        self._nodes_at = now
        nodes = tuple(self.store.fleet())
        if nodes == self._nodes:
            return False
        self._planner.set_nodes(nodes)
        self._nodes = nodes
        return True

    def _hold(self, holding: Holding) -> None:
        running_s = holding.running_s_max or RUNNING_S_DEFAULT
        self._held[holding.uid] = holding.attempt
        self._planner.hold(
            HeldJob(
                uid=holding.uid,
                project=holding.project,
                name=holding.name,
                demand=holding.demand,
                seats=holding.seats,
                ends_at_s=holding.since.timestamp() + running_s,
            )
        )

    # what is written

    def _place(self, placed: Mapping[int, Sequence[Seat]], server: str) -> Collection[int]:
        """Write the places; the uids of the jobs that have them now."""
        closed = self._closed() if placed else frozenset()
        open_to = {
            uid for uid, seats in placed.items() if closed.isdisjoint(seat.node for seat in seats)
        }
        jobs = [waiting for waiting in self._front if waiting.uid in open_to]
        if not jobs or not self.leases.leading:
            return ()
        owners = self.store.servers() or (server,)
        steps = [_step(job, placed[job.uid], owners[job.uid % len(owners)], server) for job in jobs]
        applied = apply_all(self.store, steps, self.pace.batch)
        done = [job for job, was_applied in zip(jobs, applied, strict=True) if was_applied]
        for job in done:
            self._shown.pop(job.uid, None)
            # the mirror of the holdings would bring it too, as news that make another pass due
            self._hold(_holding(job, placed[job.uid], self.clock()))
        return {job.uid for job in done}

    def _closed(self) -> frozenset[str]:
        """Nodes that were drained since they were read: what is placed on them would be ended."""
        closed = frozenset(order.name for order in self.store.node_orders())
        if any(node.name in closed and node.state is NodeState.READY for node in self._nodes):
            self.look_at_nodes()
        return closed

    def _explain(self, found: Mapping[int, Explanation]) -> None:
        rest = iter(found.items())
        while part := dict(islice(rest, self.pace.batch)):
            self.store.explain(part)
        self._shown |= found

    def _explain_behind(self, new: Sequence[tuple[int, int, int]]) -> int:
        """Tell new jobs behind a full front where they are; how many others there are."""
        if not new or not self._front_is_full:
            return len(new)
        last = self._front[-1]
        edge = (-last.priority, _ns(last.create_time), last.uid)
        behind = [uid for priority, ns, uid in new if (-priority, ns, uid) > edge]
        why = Explanation(
            reason=Reason.BEHIND_QUEUE,
            message=f"At least {len(self._front)} older or more urgent jobs wait already.",
            blockers=(f"{len(self._front)} waiting jobs",),
        )
        rest = iter(behind)
        while part := tuple(islice(rest, self.pace.batch)):
            self.store.explain(dict.fromkeys(part, why))
        return len(new) - len(behind)

    @property
    def _front_is_full(self) -> bool:
        return len(self._front) >= self.pace.window


def _step(job: WaitingJob, seats: Sequence[Seat], owner: str, server: str) -> Step:
    decision = decide(JobState.QUEUED, Placed())
    return Step(
        uid=job.uid,
        version=job.version,
        state=decision.state,
        events=(story.placed(seats), story.PREPARING),
        commands=commands_of(JobState.QUEUED, decision),
        seats=tuple(seats),
        replicas=placed_rows(job.kind, seats),
        owner=owner,
        server=server,
    )


def _queued(job: WaitingJob) -> QueuedJob:
    return QueuedJob(
        uid=job.uid,
        project=job.project,
        name=job.name,
        priority=job.priority,
        order=_ns(job.create_time),
        demand=job.demand,
        running_s_max=job.running_s_max or RUNNING_S_DEFAULT,
    )


def _holding(job: WaitingJob, seats: Sequence[Seat], now: datetime) -> Holding:
    return Holding(
        uid=job.uid,
        project=job.project,
        attempt=AttemptNumber(job.attempt + 1),
        demand=job.demand,
        seats=tuple(seats),
        since=now,
        running_s_max=job.running_s_max,
        name=job.name,
        kind=job.kind,
    )


def _ns(when: datetime) -> int:
    """Exact to the microsecond that a datetime can hold; floats are not."""
    whole = when - datetime(1970, 1, 1, tzinfo=UTC)
    return (whole.days * 86_400 + whole.seconds) * _NS + whole.microseconds * 1000
