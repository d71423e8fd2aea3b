"""Computes what a job used of its machines, for accounting, answers and logs.

The first of them that computes it after the job's end stores the rows together with the event of
its goodput.  From then on all of them read what is stored.  Two computations can differ: prices
change, nodes leave, and files with the steps of a killed supervisor are deleted.
"""

import logging
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from trainshed.engines.several import Engines
from trainshed.model.attempt import AttemptKey
from trainshed.model.bounded import BoundedDict
from trainshed.planning.attempt_steps import STEPS_READ, StepsMade
from trainshed.planning.goodput import AttemptTimes, JobTimes, job_goodput
from trainshed.service.costs.gpu_measurements import GpuMeasurements
from trainshed.service.costs.held_gpus import FleetReads, HeldSize, count_held_gpus, count_vcpus
from trainshed.service.costs.job_use import idle_ratio, read_job_use, sum_cost
from trainshed.service.costs.prices import PriceSource
from trainshed.service.costs.usage_rows import UsedMachines
from trainshed.service.goodput.facts import (
    find_end_event,
    job_times,
    list_attempt_times,
    list_attempts,
    read_events,
)
from trainshed.service.goodput.live_steps import STEPS_MAX, UsageSteps, steps_reader
from trainshed.service.goodput.words import end_event
from trainshed.service.upkeep.paced_reads import PacedReads
from trainshed.store.base import StoreFault
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.steps import StoredEvent
from trainshed.store.records.usage import JobUse, UsageRow, UsingJob

#: The most jobs whose newest checkpoint is remembered.
CHECKPOINTS_MAX: Final = 10_000
#: A job that ended longer ago gets no event with its goodput.
EVENT_S_MAX: Final = 86_400.0
#: The most attempts of which the event with the goodput has steps that were read from files.
_STEPS_READ_MAX: Final = 100

_LOG = logging.getLogger(__name__)


class UsedTime(NamedTuple):
    """The times of a job, and what it used in them."""

    times: JobTimes
    rows: Sequence[UsageRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAccounts:
    """Computes and stores what jobs used of their machines.  Thread-safe."""

    store: Store
    engines: Engines
    prices: PriceSource
    measurements: GpuMeasurements = field(default_factory=GpuMeasurements)
    checkpoints: MutableMapping[int, float] = field(
        default_factory=partial(BoundedDict, CHECKPOINTS_MAX)
    )
    """When the newest checkpoint of a job was complete, in seconds since 1970, by uid."""
    usage_steps: UsageSteps = field(default_factory=partial(PacedReads, STEPS_MAX))

    def read(self, uid: int) -> UsedTime:
        """Return the times and the use of a job until now, or of its end as they are stored.

        Stores them first if the job has just ended.  Raises StoreFault, and KeyError for a job
        that does not exist.
        """
        facts = self._read_facts(uid)
        if facts.end is None and self._is_new(facts.job.record):
            self.settle(uid)  # or another server has, since the facts were read
            facts = self._read_facts(uid)
        times = self._compute_times(facts, self._list_attempts(facts))
        rows = self._stored_rows(facts, times) or self._compute_rows(facts.job, times).rows
        return UsedTime(times, rows)

    def settle(self, uid: int) -> bool:
        """Store what a job used that has just ended, with its event; return whether it was new.

        Otherwise accounting does it, some seconds later.  A fault of the store is logged.
        """
        try:
            job = self.store.using_jobs([uid]).get(uid)
            use = self.account(job) if job is not None and self._can_settle(job.record) else None
            if use is None or use.event is None:
                return False
            self.store.write_uses([use])
        except StoreFault as fault:
            _LOG.warning("cannot store the goodput of job %s: %s; accounting retries", uid, fault)
            return False
        return True

    def account(self, job: UsingJob, fleet: FleetReads | None = None) -> JobUse | None:
        """Compute what a job used, for the store; None if there is nothing new to store.

        ``fleet`` is for callers with many jobs.  A failure
        is logged, so that the other jobs are still written.  Raises StoreFault.
        """
        if not job.record.attempt:
            return None
        try:
            facts = self._find_facts(job, fleet)
            return None if facts.end is not None else self._account(facts, fleet)
        except (ValueError, KeyError, TypeError, ArithmeticError) as fault:
            name = job.record.name
            _LOG.warning("cannot compute what %s used: %r; usage leaves it out", name, fault)
            return None

    def _account(self, facts: "_Facts", fleet: FleetReads | None) -> JobUse:
        attempts = self._list_attempts(facts)
        self._note_checkpoint(facts.job.record.uid, attempts)
        times = self._compute_times(facts, attempts)
        used = self._compute_rows(facts.job, times, fleet)
        record = facts.job.record
        if not (times.attempts and self._is_new(record)):
            return JobUse(record, used.rows, machines=used.machines)
        goodput = job_goodput(times, self._now_s())
        inputs = {"gpus": facts.gpus, STEPS_READ: _list_steps_read(facts.events, attempts)}
        event = end_event(goodput, sum_cost(used.rows), idle_ratio(used.rows), inputs)
        return JobUse(record, used.rows, event, used.machines)

    def _note_checkpoint(self, uid: int, attempts: Sequence[AttemptTimes]) -> None:
        """Remember the newest checkpoint; a program may report any time, also a later one."""
        if times_s := [one.checkpoint_s for one in attempts if one.checkpoint_s]:
            newest_s = min(self._now_s(), max(times_s))
            self.checkpoints[uid] = max(newest_s, self.checkpoints.get(uid, 0.0))

    def _read_facts(self, uid: int) -> "_Facts":
        return self._find_facts(self.store.using_jobs([uid])[uid])

    def _find_facts(self, job: UsingJob, fleet: FleetReads | None = None) -> "_Facts":
        uid = job.record.uid
        events = read_events(self.store, uid) if job.events is None else job.events
        end = find_end_event(self.store, uid, events)
        gpus = end.data.get("gpus") if end else None
        if not isinstance(gpus, int):
            gpus = count_held_gpus(self.store, uid, job.demand, fleet)
        return _Facts(job, events, end, gpus)

    def _list_attempts(self, facts: "_Facts") -> Sequence[AttemptTimes]:
        record = facts.job.record
        is_over = record.job.status.end_time is not None
        read_steps = steps_reader(
            self.engines,
            lambda key: facts.job.find_primary(key.attempt),
            self.usage_steps,
            is_over=is_over,
        )
        return list_attempts(self.store, record, facts.events, read_steps)

    def _compute_times(self, facts: "_Facts", attempts: Sequence[AttemptTimes]) -> JobTimes:
        size = HeldSize(facts.gpus, count_vcpus(facts.job.demand))
        return job_times(self.store, facts.job.record, size, facts.events, attempts)

    def _compute_rows(
        self, job: UsingJob, times: JobTimes, fleet: FleetReads | None = None
    ) -> UsedMachines:
        measured = self.measurements.read(self.store, self.engines, job.record.uid, times)
        return read_job_use(self.store, self.prices, job, times, measured, fleet)

    def _stored_rows(self, facts: "_Facts", times: JobTimes) -> Sequence[UsageRow]:
        """Return the use of a job that has ended, at the price of then; () if it is not stored."""
        record = facts.job.record
        if times.ended_s is None or (facts.end is None and self._is_new(record)):
            return ()
        rows = self.store.usage_rows(record.uid)
        return rows if facts.end is not None or _are_complete(rows, times) else ()

    def _is_new(self, record: JobRecord) -> bool:
        """Whether a job has ended, and since this release was started: it gets an event."""
        end_time = record.job.status.end_time
        return end_time is not None and end_time.timestamp() > self._now_s() - EVENT_S_MAX

    def _can_settle(self, record: JobRecord) -> bool:
        """Whether a job has just ended, and this server runs the engine with its measurements."""
        if not self._is_new(record):
            return False
        try:
            self.engines.get_by_attempt(AttemptKey(record.uid, record.attempt))
        except OSError:
            return False
        return True

    def _now_s(self) -> float:
        return self.store.now().timestamp()


class _Facts(NamedTuple):
    job: UsingJob
    events: Sequence[StoredEvent]
    end: StoredEvent | None
    """The event with the goodput; None before it is stored."""
    gpus: int


def _are_complete(rows: Sequence[UsageRow], times: JobTimes) -> bool:
    """Whether rows were written after the end of the last attempt of a job."""
    ended = {row.attempt for row in rows if row.end_ns is not None}
    return ended >= {attempt.attempt for attempt in times.attempts}


def _list_steps_read(
    events: Sequence[StoredEvent], attempts: Sequence[AttemptTimes]
) -> dict[str, Any]:
    """Return the data of the steps that are not in the events of attempts' ends, the newest."""
    with_steps = {one.attempt for one in list_attempt_times(events) if one.first_step_s is not None}
    read = [attempt for attempt in attempts if attempt.attempt not in with_steps]
    steps = {str(attempt.attempt): StepsMade.of_attempt(attempt) for attempt in read}
    data = {number: made.data for number, made in steps.items() if made is not None}
    return dict([*data.items()][-_STEPS_READ_MAX:])
