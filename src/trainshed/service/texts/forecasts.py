"""Says whether a job that is not stored would start now, by the fleet and the queue.

The same planner as the scheduler's decides, on a copy of the fleet that is at most a second old.
Jobs of engines with queues of their own are never forecast to start: only the engine knows.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from trainshed.engines.base import JobNeeds, PlacedBy
from trainshed.engines.several import Engines
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resources import FleetPolicy, JobDemand, Node, Seat, shown_name
from trainshed.placement.jobs import RUNNING_S_DEFAULT, QueuedJob, QuotaRule
from trainshed.placement.plan import Planner
from trainshed.service.jobs.submission import AdmittedJob
from trainshed.store.codec import to_ns
from trainshed.store.front import BEHIND_FRONT, FRONT_MAX
from trainshed.store.holdings import Holdings, held_job
from trainshed.store.opening import Store
from trainshed.store.records.jobs import Holding, WaitingJob

#: How old the copy of the fleet and the queue may be, in seconds.
AGE_S_MAX: Final = 1.0
#: How long a caller waits for the forecasts of others, in seconds.
_TURN_S_MAX: Final = 5.0
#: The uid of a job that is not stored; the planner uses -1 itself.
_UNSTORED: Final = -2

#: Returns the name of the engine that would run a job; None if none can.
ChooseEngine = Callable[[JobNeeds], str | None]


@dataclass(eq=False)
class StartForecasts:
    """Forecasts of starts.  Thread-safe."""

    store: Store
    quotas: Sequence[QuotaRule]
    engines: Engines | None
    choose: ChooseEngine
    """Chooses the engine of a waiting job."""
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _read_at: float = field(default=float("-inf"), init=False)
    _nodes: Sequence[Node] = field(default=(), init=False)
    _held: dict[int, int] = field(default_factory=dict, init=False)
    _enqueued: dict[str, int] = field(default_factory=dict, init=False)
    _front: Sequence[WaitingJob] = field(default=(), init=False)
    _queue: Sequence[QueuedJob] = field(default=(), init=False)

    def __post_init__(self) -> None:
        self._planner = Planner(self.quotas)
        self._holdings = Holdings(self.store)

    def can_tell(self) -> bool:
        """Return whether any node, or an engine with its own queue, has been listed."""
        with self._take_turn():
            self._refresh()
            return bool(self._nodes) or self._has_queues()

    def forecast(
        self, project: str, admitted: AdmittedJob, engine: str | None
    ) -> Explanation | Sequence[str]:
        """Return why a job that is submitted now would wait.

        If it would start at once, return the names of the nodes that would emulate its GPUs.
        ``engine`` is the name of its engine; None for a server without named engines.
        Raises Refusal (UNAVAILABLE) if other forecasts take too long.
        """
        now = self.store.now()
        with self._take_turn():
            self._refresh()
            job = self._queue_submitted(project, admitted, engine, now)
            if len(self._front) >= FRONT_MAX and job.priority <= self._front[-1].priority:
                return BEHIND_FRONT
            outcome = self._planner.forecast(self._queue, job, now.timestamp())
            if isinstance(outcome, Explanation):
                return outcome
            if job.seatless:
                return self._explain_engine(engine or "")
            return self._list_emulating(job.demand, outcome)

    def _take_turn(self) -> "_Turn":
        return _Turn(self._lock)

    def _queue_submitted(
        self, project: str, admitted: AdmittedJob, engine: str | None, now: datetime
    ) -> QueuedJob:
        seatless = self._places_itself(engine)
        demand = admitted.demand
        if engine and not seatless and self.engines is not None and self.engines.are_several:
            demand = replace(demand, engine=engine)
        return QueuedJob(
            uid=_UNSTORED,
            project=project,
            name="",
            priority=admitted.spec.scheduling.priority or 0,
            order=to_ns(now),
            demand=demand,
            running_s_max=admitted.limits.running_s_max or RUNNING_S_DEFAULT,
            seatless=seatless,
        )

    def _list_emulating(self, demand: JobDemand, seats: Iterable[Seat]) -> Sequence[str]:
        """Return the names of the nodes where replicas that ask for GPUs run without one."""
        roles = {group.role for group in demand.groups if group.each.gpu_count}
        nodes = {(seat.engine, seat.node) for seat in seats if seat.role in roles}
        several = self.engines is not None and self.engines.are_several
        return [
            shown_name(node, several=several)
            for node in self._nodes
            if node.policy is FleetPolicy.EMULATE and (node.engine, node.name) in nodes
        ]

    def _explain_engine(self, name: str) -> Explanation:
        """Return why a job would wait in the queue of its engine."""
        assert self.engines is not None  # noqa: S101  # only an engine can have a queue
        if away := self.engines.check_health(name):
            return away
        most, enqueued = self.engines.traits_of(name).enqueued_max, self._enqueued.get(name, 0)
        if most is not None and enqueued >= most:
            message = f"The queue of {name} is full: it holds {enqueued} jobs."
            return Explanation(reason=Reason.ENGINE_FULL, message=message)
        message = f"It goes to the queue of {name}, which decides when it starts."
        return Explanation(reason=Reason.ENGINE_QUEUE, message=message)

    def _places_itself(self, engine: str | None) -> bool:
        if self.engines is None or engine is None:
            return False
        return self.engines.traits_of(engine).places is PlacedBy.ENGINE

    def _has_queues(self) -> bool:
        names = [offer.name for offer in self.engines.list_offered()] if self.engines else []
        return any(map(self._places_itself, names))

    # the copy of the fleet and the queue

    def _refresh(self) -> None:
        if self.clock() - self._read_at < AGE_S_MAX:
            return
        self._nodes = [node for node in self.store.fleet() if self._are_seats_on(node)]
        self._planner.set_nodes(self._nodes)
        self._hold_all(self._holdings.refresh())
        self._front = self.store.waiting(limit=FRONT_MAX)
        engines: dict[object, str | None] = {}
        self._queue = [self._queue_waiting(job, engines) for job in self._front]
        self._read_at = self.clock()

    def _are_seats_on(self, node: Node) -> bool:
        return self.engines is None or self.engines.are_seats_on(node)

    def _hold_all(self, holdings: Mapping[int, Holding]) -> None:
        for uid in self._held.keys() - holdings.keys():
            self._planner.release(uid)
            del self._held[uid]
        self._enqueued = {}
        for uid, holding in holdings.items():
            if holding.enqueued:
                self._enqueued[holding.engine] = self._enqueued.get(holding.engine, 0) + 1
            if self._held.get(uid) != holding.attempt:
                self._held[uid] = holding.attempt
                self._planner.hold(held_job(holding))

    def _queue_waiting(self, job: WaitingJob, engines: dict[object, str | None]) -> QueuedJob:
        """Return a waiting job for the planner; thousands of them share a few choices."""
        engine = None
        if self.engines is not None:
            key = job.project, job.demand, job.running_s_left, frozenset(job.wants.items())
            if key not in engines:
                engines[key] = self._choose(job)
            engine = engines[key]
        seatless = self._places_itself(engine)
        is_named = bool(engine) and not seatless and self.engines and self.engines.are_several
        return QueuedJob(
            uid=job.uid,
            project=job.project,
            name=job.name,
            priority=job.priority,
            order=to_ns(job.create_time),
            demand=replace(job.demand, engine=engine) if is_named else job.demand,
            running_s_max=job.running_s_max or RUNNING_S_DEFAULT,
            seatless=seatless,
        )

    def _choose(self, job: WaitingJob) -> str | None:
        if self.engines is not None and not self.engines.are_several:
            return self.engines.first
        needs = JobNeeds(
            demand=job.demand,
            running_s_max=job.running_s_left,
            wants=job.wants,
            project=job.project,
        )
        return self.choose(needs)


@dataclass(frozen=True, slots=True)
class _Turn:
    """Holds a lock; raises Refusal if it is not free in time."""

    lock: threading.Lock

    def __enter__(self) -> None:
        if not self.lock.acquire(timeout=_TURN_S_MAX):
            message = "the server is busy with other forecasts; try again later"
            raise Refusal(Code.UNAVAILABLE, message)

    def __exit__(self, *_: object) -> None:
        self.lock.release()
