"""Schedules waiting jobs, and records for each of the others why it waits.

One server leads.  It plans without an open transaction, over the front of the queue.  One write
stores a job's new state, its places or its claim on an engine's queue, and its LAUNCH.  Jobs behind
the front cost nothing: a read derives why they wait (``store.front``).
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from trainshed.controller import story
from trainshed.controller.choosing import Startable, choosing
from trainshed.controller.handing_over import QueueHandover
from trainshed.controller.leases import Leases
from trainshed.controller.steps import apply_all, placed_rows
from trainshed.controller.worker import Pace
from trainshed.engines.several import Engines
from trainshed.lifecycle import decide
from trainshed.lifecycle.decide import commands_of
from trainshed.lifecycle.events import HandedOver, Placed
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.resource_names import AttemptNumber
from trainshed.model.resources import Claim, JobDemand, Node, NodeState, Seat, SeatsOrClaim
from trainshed.model.status import JobState
from trainshed.placement.jobs import (
    RUNNING_S_DEFAULT,
    ChosenEngine,
    QueuedJob,
    QuotaRule,
)
from trainshed.placement.plan import Planner
from trainshed.store.holdings import Holdings, held_job
from trainshed.store.opening import Store
from trainshed.store.records.jobs import Holding, WaitingJob
from trainshed.store.records.steps import Step

NODES_EVERY_S: Final = 1.0
#: New jobs per pass for which the server computes an admitting change, which is expensive.
CHANGES_MAX: Final = 16
_NS: Final = 1_000_000_000
#: Reasons that do not replace the explanation of a job that its engine refused; ENGINE_AWAY does.
_SAYS_LESS: Final = frozenset({Reason.ENGINE_FULL, Reason.BEHIND_QUEUE})


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
    engines: Engines
    startable: Startable | None = None
    _front: Sequence[WaitingJob] = field(default=(), init=False)
    _explanations: dict[int, Explanation] = field(default_factory=dict, init=False)
    _departures: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._choose = choosing(
            self.engines, self.never, self.startable, self.pace.running_s_default
        )
        self._forget()

    def due(self) -> bool:
        """Return whether a pass could change anything."""
        if not self.leases.leading:
            self._forget()
            return False
        changed = self._sync()
        now = self.monotonic()
        slow = self._front and now - self._passed_at >= self.pace.slow_s
        return bool(
            changed
            or slow
            or self._pass_again
            or now >= self._next_pass_at
            or self._has_new_in_front()
        )

    def look_at_nodes(self) -> None:
        """Read the nodes again in the next pass; callable from any thread."""
        self._nodes_at = float("-inf")

    def never(self, demand: JobDemand) -> Explanation | None:
        """Return why the nodes, as last read, can never hold a job."""
        return self._planner.never(demand) if self._nodes else None

    def once(self) -> int:
        """Do one pass; return how many jobs were placed, 0 while another server leads."""
        if not self.leases.leading:
            self._forget()
            return 0
        server = self.leases.name
        self._sync()
        self._passed_at = self.monotonic()
        self._front = self.store.waiting(limit=self.pace.window)
        new = [uid for *_, uid in self.store.unexplained(limit=CHANGES_MAX)]
        handover = self._make_handover()
        closed = handover.find_blocked(self._front)
        queue = [
            _queued_job(job, handover.chosen[job.uid])
            for job in self._front
            if job.uid not in closed
        ]
        starts: list[tuple[Collection[int], Mapping[int, Explanation]]] = []
        plan = self._planner.plan(
            queue,
            self.clock().timestamp(),
            explain_uids=new,
            start=lambda placed: starts.append(self._start(placed, handover, server)),
        )
        [(placed, held_back)] = starts
        refused = {job.uid for job in self._front if job.refused is not None}
        untouched = refused - self._explanations.keys()
        waiting = {**plan.waiting, **_keep_specific(untouched, {**closed, **held_back})}
        self._explain(
            {uid: why for uid, why in waiting.items() if self._explanations.get(uid) != why}
        )
        self._explanations = {
            w.uid: self._explanations[w.uid] for w in self._front if w.uid in self._explanations
        }
        return len(placed)

    def _start(
        self, placed: Mapping[int, Sequence[Seat]], handover: QueueHandover, server: str
    ) -> tuple[Collection[int], Mapping[int, Explanation]]:
        """Write the places of jobs that start; return their uids, and why others wait."""
        places, held_back = self._places(placed, handover)
        started = self._place(places, handover.chosen, server)
        self._pass_again = len(started) < len(places) or (bool(started) and self._front_is_full)
        self._schedule_later(handover, started, held_back)
        return started, held_back

    # the planner's input

    def _forget(self) -> None:
        """Discard the planner's state: it is stale on a server that has not led for a while."""
        self._planner = Planner(self.quotas)
        self._held: dict[int, int] = {}
        self._enqueued = Counter[str]()
        self._held_back: frozenset[str] = frozenset()
        self._next_pass_at = float("inf")
        self._synced: Mapping[int, Holding] | None = None
        self._nodes: Sequence[Node] = ()
        self._nodes_at = float("-inf")
        self._passed_at = float("-inf")
        self._pass_again = True
        self._explanations.clear()

    def _sync(self) -> bool:
        changed = self._sync_nodes()
        holdings = self.holdings.refresh()
        if self._departures != self.holdings.departures:
            self._departures = self.holdings.departures
            changed = True  # other jobs waited behind jobs that were cancelled in the queue
        if holdings is self._synced:
            return changed
        self._synced = holdings
        enqueued = Counter(held.engine for held in holdings.values() if held.enqueued)
        if not self._held_back.isdisjoint(self._enqueued - enqueued):
            changed = True  # attempts that left an engine's queue make room for others
        self._enqueued = enqueued
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
        nodes = tuple(node for node in self.store.fleet() if self.engines.are_seats_on(node))
        if nodes == self._nodes:
            return False
        self._planner.set_nodes(nodes)
        self._nodes = nodes
        return True

    def _hold(self, holding: Holding) -> None:
        self._held[holding.uid] = holding.attempt
        self._planner.hold(held_job(holding))

    # engines with queues of their own

    def _make_handover(self) -> QueueHandover:
        chosen: dict[int, ChosenEngine] = {job.uid: self._choose(job) for job in self._front}
        has_queue = any(engine.places for engine in chosen.values())
        under_way = self.store.handing_over() if has_queue else {}
        return QueueHandover(chosen, self._enqueued, under_way, self.clock())

    def _places(
        self, placed: Mapping[int, Sequence[Seat]], handover: QueueHandover
    ) -> tuple[Mapping[int, SeatsOrClaim], Mapping[int, Explanation]]:
        """Return the seats of jobs placed by the server, and the claims of jobs handed over."""
        jobs: dict[int, WaitingJob] = {job.uid: job for job in self._front}
        seatless = [jobs[uid] for uid in placed if handover.chosen[uid].places]
        admitted, waiting = handover.admit(seatless)
        places: dict[int, SeatsOrClaim] = {
            uid: seats for uid, seats in placed.items() if not handover.chosen[uid].places
        }
        places |= {job.uid: _claim(job, handover.chosen[job.uid]) for job in admitted}
        return places, waiting

    def _schedule_later(
        self, handover: QueueHandover, placed: Collection[int], held_back: Mapping[int, Explanation]
    ) -> None:
        """Schedule another pass: the end of a pause or of a launch makes no change in the store."""
        self._held_back = frozenset(handover.chosen[uid].name for uid in held_back)
        pause_s = handover.next_s()
        self._next_pass_at = float("inf") if pause_s is None else self._passed_at + pause_s
        launching = handover.under_way.keys() | {handover.chosen[uid].name for uid in placed}
        if not self._held_back.isdisjoint(launching):
            self._pass_again = True

    # writes

    def _place(
        self, placed: Mapping[int, SeatsOrClaim], chosen: Mapping[int, ChosenEngine], server: str
    ) -> Collection[int]:
        """Write the places; return the uids of the jobs that were placed."""
        closed = self._closed() if placed else frozenset()
        open_to = {
            uid
            for uid, place in placed.items()
            if isinstance(place, Claim)
            or closed.isdisjoint((seat.engine, seat.node) for seat in place)
        }
        jobs = [waiting for waiting in self._front if waiting.uid in open_to]
        if not jobs or not self.leases.leading:
            return ()
        owners = self.store.servers() or (server,)
        steps = [
            _step(
                job,
                placed[job.uid],
                chosen[job.uid],
                owner=owners[job.uid % len(owners)],
                server=server,
            )
            for job in jobs
        ]
        applied = apply_all(self.store, steps, self.pace.batch)
        done = [job for job, was_applied in zip(jobs, applied, strict=True) if was_applied]
        for job in done:
            self._explanations.pop(job.uid, None)
            # held now: if read from the holdings later, it would count as a change
            self._hold(_holding(job, placed[job.uid], self.clock()))
        return {job.uid for job in done}

    def _closed(self) -> frozenset[tuple[str, str]]:
        """Return nodes drained since they were read: jobs placed there would be ended."""
        closed = frozenset((order.engine, order.name) for order in self.store.node_orders())
        ready = (node for node in self._nodes if node.state is NodeState.READY)
        if any((node.engine, node.name) in closed for node in ready):
            self.look_at_nodes()
        return closed

    def _explain(self, explanations: Mapping[int, Explanation]) -> None:
        rest = iter(explanations.items())
        while part := dict(islice(rest, self.pace.batch)):
            self.store.explain(part)
        self._explanations |= explanations

    def _has_new_in_front(self) -> bool:
        """Return whether the first job without an explanation is, or could be, in the front."""
        new = self.store.unexplained(limit=1)
        if not new or not self._front_is_full:
            return bool(new)
        [(priority, create_ns, uid)] = new
        last = self._front[-1]
        return (-priority, create_ns, uid) <= (-last.priority, _ns(last.create_time), last.uid)

    @property
    def _front_is_full(self) -> bool:
        return len(self._front) >= self.pace.window


def _step(
    job: WaitingJob, place: SeatsOrClaim, chosen: ChosenEngine, *, owner: str, server: str
) -> Step:
    if isinstance(place, Claim):
        return _handover_step(job, place, chosen, owner, server)
    decision = decide(JobState.QUEUED, Placed())
    return Step(
        uid=job.uid,
        version=job.version,
        state=decision.state,
        events=(story.placed(place, chosen), story.PREPARING),
        commands=commands_of(JobState.QUEUED, decision),
        seats=tuple(place),
        engine=chosen.name,
        replicas=placed_rows(job.kind, place),
        owner=owner,
        server=server,
    )


def _handover_step(
    job: WaitingJob, claim: Claim, chosen: ChosenEngine, owner: str, server: str
) -> Step:
    """Return the step; the story says that the job was handed over once the engine has it."""
    decision = decide(JobState.QUEUED, HandedOver())
    return Step(
        uid=job.uid,
        version=job.version,
        state=decision.state,
        commands=commands_of(JobState.QUEUED, decision),
        claim=claim,
        engine=chosen.name,
        replicas=(),
        owner=owner,
        server=server,
    )


def _claim(job: WaitingJob, chosen: ChosenEngine) -> Claim:
    return Claim(
        engine=chosen.name,
        demand=job.demand,
        project=job.project,
        running_s_max=job.running_s_left,
        priority=job.priority,
        wants=chosen.wants,
        why=chosen.why,
    )


def _keep_specific(
    uids: Collection[int], explanations: Mapping[int, Explanation]
) -> Mapping[int, Explanation]:
    """Drop general explanations of refused jobs: the refusal itself says more."""
    return {
        uid: why
        for uid, why in explanations.items()
        if uid not in uids or why.reason not in _SAYS_LESS
    }


def _queued_job(job: WaitingJob, chosen: ChosenEngine) -> QueuedJob:
    only = chosen.name if chosen.name and not chosen.places else None
    return QueuedJob(
        uid=job.uid,
        project=job.project,
        name=job.name,
        priority=job.priority,
        order=_ns(job.create_time),
        demand=replace(job.demand, engine=only) if only else job.demand,
        running_s_max=job.running_s_max or RUNNING_S_DEFAULT,
        seatless=chosen.places,
    )


def _holding(job: WaitingJob, place: SeatsOrClaim, now: datetime) -> Holding:
    claim = place if isinstance(place, Claim) else None
    return Holding(
        uid=job.uid,
        project=job.project,
        attempt=AttemptNumber(job.attempt + 1),
        demand=job.demand,
        seats=() if isinstance(place, Claim) else tuple(place),
        claim=claim,
        enqueued=claim is not None,
        since=now,
        running_s_max=job.running_s_max,
        name=job.name,
        kind=job.kind,
    )


def _ns(when: datetime) -> int:
    """Convert with integers: a float would lose microseconds."""
    elapsed = when - datetime(1970, 1, 1, tzinfo=UTC)
    return (elapsed.days * 86_400 + elapsed.seconds) * _NS + elapsed.microseconds * 1000
