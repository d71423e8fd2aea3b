"""One pass over the queue: which jobs start now, and why the others wait.

The rules, in the order in which each job is checked (more urgent first, then older):

1. Quota.  A job over its quota waits, and reserves no room.  Until it has started, no job after it
   uses any quota that it needs, even if some is left.  Otherwise a stream of small jobs would keep
   a large job waiting forever.  This does not affect jobs of other projects, regions or
   accelerators.  A job that exceeds a quota by itself may wait forever, and blocks no other job.
2. Room.  The first job that has its quota and does not fit gets a reserved start (``reservation``),
   and keeps its quota for it.  Jobs after it start if they do not delay that start.
3. A demand that did not fit is not tried again for the jobs after it in the same pass.

A reservation lasts from pass to pass until the job starts.  Only a more urgent job, or an older job
that enters the queue (again), may start before it.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from trainshed.model.explanation import Reason
from trainshed.model.resources import JobDemand, Seat
from trainshed.placement.feasibility import Feasibility
from trainshed.placement.fleet import FleetUsage
from trainshed.placement.gang import place
from trainshed.placement.jobs import QueuedJob
from trainshed.placement.quota import ExceededQuota, QuotaBucket, Quotas
from trainshed.placement.reservation import Backfill, Reservation, reserve


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One job that waits: facts, which ``explain`` turns into sentences.

    ``behind``, for the reason BEHIND_QUEUE, is the job that must start first.  ``exceeded``, for
    the reason QUOTA, are the quotas that other jobs use.  ``reserved`` is the job's reservation.
    """

    job: QueuedJob
    reason: Reason
    behind: QueuedJob | None = None
    exceeded: tuple[ExceededQuota, ...] = ()
    reserved: Reservation | None = None


class PlanningPass:
    """Changes the planner's fleet and quotas during a pass; ``close`` undoes the changes."""

    def __init__(
        self,
        fleet: FleetUsage,
        quotas: Quotas,
        feasibility: Feasibility,
        ends: Iterable[tuple[float, int]],
        now_s: float,
    ) -> None:
        """Begin with the held seats; ``ends`` are (latest end, uid), ascending."""
        self.fleet = fleet
        self.quotas = quotas
        self.feasibility = feasibility
        self.now_s = now_s
        self.placed: dict[int, tuple[Seat, ...]] = {}
        self.placed_jobs: dict[int, QueuedJob] = {}
        self.waits: dict[int, Wait] = {}
        self.reservation: Reservation | None = None
        self.quota_blockers: set[int] = set()
        """Waiting jobs for which later jobs may not use a quota."""
        self.ends = list(ends)
        self._before: Reservation | None = None
        self._backfill: Backfill | None = None
        self._closed: dict[QuotaBucket, QueuedJob] = {}
        self._failed: dict[tuple[bool, object], QueuedJob] = {}

    def run(
        self, queue: Sequence[QueuedJob], before: Reservation | None
    ) -> Iterator["PlanningPass"]:
        """Decide about every job; ``before`` is the last pass's final reservation.

        Yield this pass after the jobs of each priority: a changed job would be the last of them.
        """
        self._before = before
        for _, jobs in groupby(in_order(queue, before), key=lambda job: job.priority):
            for job in jobs:
                wait = self._consider(job)
                if wait is not None:
                    self.waits[job.uid] = wait
            yield self

    def close(self) -> None:
        """Restore the fleet and the quotas to their state before the pass."""
        for uid in self.placed:
            self.fleet.release(uid)
            self.quotas.release(uid)
        if self.reservation is not None:
            self.quotas.release(self.reservation.job.uid)

    def admits(self, job: QueuedJob, demand: JobDemand) -> bool:
        """Whether the job would start with this demand, after the jobs already decided.

        Ignore the quotas that only the job itself blocks.
        """
        if self.quotas.exceeded(job.project, demand):
            return False
        if any(closer.uid != job.uid for closer in self._closers(job.project, demand)):
            return False
        seats = self._seat(job, demand)
        self._unseat(job.uid)
        return seats is not None

    def same_demand(self, job: QueuedJob, other: QueuedJob) -> bool:
        """Whether two jobs have the same demand on this fleet."""
        shape = self.fleet.topology.shape
        return shape(job.demand).key == shape(other.demand).key

    def _consider(self, job: QueuedJob) -> Wait | None:
        """Place a job, or record why it waits."""
        wait = self._wait_for_quota(job) or (
            None if job.seatless else self._wait_for_failed_demand(job)
        )
        if wait is not None:
            return wait
        seats = () if job.seatless else self._seat(job, job.demand)
        if seats is None:
            return self._wait_for_room(job)
        self.placed[job.uid] = seats
        self.placed_jobs[job.uid] = job
        self.quotas.take(job.uid, job.project, job.demand)
        if not job.seatless:
            insort(self.ends, (self._end_s(job), job.uid))
        return None

    def _wait_for_quota(self, job: QueuedJob) -> Wait | None:
        exceeded = self.quotas.exceeded(job.project, job.demand)
        closers = self._closers(job.project, job.demand)
        if not exceeded and not closers:
            return None
        blocking_reason = None if job.seatless else self.feasibility.blocking_reason(job.demand)
        if blocking_reason is not None:
            return Wait(job=job, reason=blocking_reason)
        self.quota_blockers.update(closer.uid for closer in closers)
        if not self.quotas.too_large(job.project, job.demand):
            for claim in self.quotas.claims(job.project, job.demand):
                self._closed.setdefault(claim.bucket, job)
        if not exceeded:
            return Wait(job=job, reason=Reason.BEHIND_QUEUE, behind=closers[0])
        return Wait(job=job, reason=Reason.QUOTA, exceeded=exceeded)

    def _closers(self, project: str, demand: JobDemand) -> list[QueuedJob]:
        """List the earlier waiting jobs for which a quota that this job needs is kept."""
        claims = self.quotas.claims(project, demand) if self._closed else ()
        return [self._closed[claim.bucket] for claim in claims if claim.bucket in self._closed]

    def _wait_for_failed_demand(self, job: QueuedJob) -> Wait | None:
        """Return the wait of a job whose demand has already failed in this pass."""
        free, key = self._attempt(job)
        first = self._failed.get((True, key)) or self._failed.get((free, key))
        return Wait(job=job, reason=Reason.BEHIND_QUEUE, behind=first) if first else None

    def _attempt(self, job: QueuedJob) -> tuple[bool, object]:
        """Return whether the job ends before the reserved start, and the key of its demand."""
        free = self._backfill is None or self._backfill.in_time(self._end_s(job))
        return free, self.fleet.topology.shape(job.demand).key

    def _wait_for_room(self, job: QueuedJob) -> Wait:
        if (blocking_reason := self.feasibility.blocking_reason(job.demand)) is not None:
            return Wait(job=job, reason=blocking_reason)
        free, key = self._attempt(job)
        self._failed[free, key] = job
        if self._backfill is None:
            return Wait(job=job, reason=Reason.CAPACITY, reserved=self._reserve(job))
        if not free and self._fits_now(job):
            return Wait(job=job, reason=Reason.RESERVED)
        self._failed[True, key] = job
        return Wait(job=job, reason=Reason.CAPACITY)

    def _fits_now(self, job: QueuedJob) -> bool:
        seats = place(self.fleet, job.uid, job.demand)
        self.fleet.release(job.uid)
        return seats is not None

    def _reserve(self, job: QueuedJob) -> Reservation | None:
        before = self._before if self._before and self._before.job.uid == job.uid else None
        grant = reserve(self.fleet, job, self.ends, self.now_s, before)
        if grant is None:
            return None
        granted, then = grant
        passed_over = before.passed_over if before else self._older_waiting(job)
        self.reservation = Reservation(
            job=job, start_s=granted.start_s, seats=granted.seats, passed_over=passed_over
        )
        self._backfill = Backfill(self.fleet, then, granted.start_s)
        self.quotas.take(job.uid, job.project, job.demand)
        return self.reservation

    def _older_waiting(self, job: QueuedJob) -> frozenset[int]:
        """Return the waiting jobs of the same priority, except those that exceed a quota alone."""
        return frozenset(
            uid
            for uid, wait in self.waits.items()
            if wait.job.priority == job.priority
            and not self.quotas.too_large(wait.job.project, wait.job.demand)
        )

    def _seat(self, job: QueuedJob, demand: JobDemand) -> tuple[Seat, ...] | None:
        if self._backfill is None:
            return place(self.fleet, job.uid, demand)
        return self._backfill.place(job.uid, demand, self._end_s(job))

    def _unseat(self, uid: int) -> None:
        if self._backfill is None:
            self.fleet.release(uid)
        else:
            self._backfill.release(uid)

    def _end_s(self, job: QueuedJob) -> float:
        return self.now_s + job.running_s_max


def in_order(queue: Sequence[QueuedJob], before: Reservation | None) -> list[QueuedJob]:
    """Sort by priority, then age.

    Jobs that a reservation has passed over come directly after the job with the reservation.
    """
    passed_over = before.passed_over if before else frozenset[int]()
    reserved = {job.uid: job for job in queue}.get(before.job.uid) if before else None

    def rank(job: QueuedJob) -> tuple[int, int, bool, int, int]:
        passed = (
            reserved is not None
            and job.uid in passed_over
            and job.priority == reserved.priority
            and job.order < reserved.order
        )
        order = reserved.order if passed and reserved else job.order
        return (-job.priority, order, passed, job.order, job.uid)

    return sorted(queue, key=rank)
