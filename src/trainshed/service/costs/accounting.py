"""Writes what jobs used of their machines: after each change of their seats, and while they run.

The server that holds the scheduler's lease does it.  The rows of a job are computed from its events
and its usage and replaced whole, so that repeating it changes nothing and a kill loses nothing.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import takewhile
from typing import Final

from trainshed.engines.several import Engines
from trainshed.model.event_kinds import GOODPUT
from trainshed.planning.goodput import JobTimes, job_goodput
from trainshed.planning.usage_days import today
from trainshed.service.costs.gpu_measurements import GpuMeasurements
from trainshed.service.costs.held_gpus import (
    HeldSize,
    count_held_gpus,
    count_vcpus,
    emulating_nodes,
)
from trainshed.service.costs.job_use import idle_ratio, read_job_use, sum_cost
from trainshed.service.costs.prices import PriceSource
from trainshed.service.goodput.facts import EVENTS_MAX, job_times, read_events
from trainshed.service.goodput.live_steps import steps_reader
from trainshed.service.goodput.words import end_event
from trainshed.service.learning.turns import CpuBudget
from trainshed.store.opening import Store
from trainshed.store.records.steps import NewEvent, StoredEvent
from trainshed.store.records.usage import JobUse, UsageRow, UsingJob

#: The most jobs that one turn reads; it can process fewer.
_AT_ONCE: Final = 50
#: Seconds after which the rows of a job that holds machines are written again.
REFRESH_S: Final = 300.0
#: Seconds between two lists of the jobs that hold machines.
LIST_S: Final = 30.0
#: A job that ended longer ago gets no event with its goodput.
EVENT_S_MAX: Final = 86_400.0
#: Days for which rows are stored.
DAYS_MAX: Final = 1100


_LOG = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Accounting:
    """Keeps the rows of ``attempt_usage`` up to date.  Safe for several servers."""

    store: Store
    engines: Engines
    prices: PriceSource
    leads: Callable[[], bool]
    """Whether this server holds the scheduler's lease."""
    turns: CpuBudget
    measurements: GpuMeasurements = field(default_factory=GpuMeasurements)
    monotonic: Callable[[], float] = time.monotonic
    _due_s: dict[int, float] = field(default_factory=dict, init=False)
    """When the rows of a job that holds machines are written again, by uid."""
    _held: Collection[int] = field(default=frozenset(), init=False)
    """The jobs that held machines when they were last listed."""
    _listed_s: float = field(default=float("-inf"), init=False)
    _is_refresh_first: bool = field(default=False, init=False)
    _has_backlog: bool = field(default=False, init=False)
    """Whether more jobs have changed than one turn could write."""
    _dropped_day: int = field(default=0, init=False)

    def account(self) -> None:
        """Write the rows of some jobs: of those that changed, then of those that run.

        Raises StoreFault.
        """
        if self.turns.is_resting or not self.leads():
            return
        with self.turns.one() as has_time:
            # after an upgrade many jobs have changed; those that run must not wait for all of them
            self._is_refresh_first = not self._is_refresh_first
            steps = (self._refresh, self._write_changed)
            for step in steps if self._is_refresh_first else reversed(steps):
                step(has_time)
        self._drop_old()

    def _write_changed(self, has_time: Callable[[], bool]) -> None:
        """Write the rows of jobs that have released seats; others are written while they run."""
        changed = self.store.changed_jobs(_AT_ONCE)
        released = [job.uid for job in changed if not job.is_held]
        uses = self._compute(released, has_time)
        read = [*takewhile(lambda job: job.is_held or job.uid in uses, changed)]
        self._has_backlog = len(read) < len(changed) or len(changed) == _AT_ONCE
        if read:
            self.store.write_uses([*filter(None, uses.values())], read[-1].mark)

    def _refresh(self, has_time: Callable[[], bool]) -> None:
        """Write the rows of jobs that hold machines again, the longest unwritten first.

        Those that have ended since are written once more, if other jobs are before them.
        """
        now_s = self.monotonic()
        if now_s - self._listed_s > LIST_S:
            self._held = {held.uid for held in self.store.holding()}
            due_s = {uid: self._due_s.get(uid, now_s + LIST_S) for uid in self._held}
            ended = self._due_s.keys() - self._held if self._has_backlog else ()
            self._due_s = dict.fromkeys(ended, now_s) | due_s
            self._listed_s = now_s
        due = [uid for uid, due_s in self._due_s.items() if due_s <= now_s]
        uses = self._compute(sorted(due, key=self._due_s.__getitem__)[:_AT_ONCE], has_time)
        if not uses:
            return
        self.store.write_uses([*filter(None, uses.values())])
        for uid in uses:
            self._due_s[uid] = now_s + REFRESH_S
            if uid not in self._held:
                del self._due_s[uid]

    def _compute(
        self, uids: Sequence[int], has_time: Callable[[], bool]
    ) -> Mapping[int, JobUse | None]:
        """Compute what jobs used while there is time, of at least one; None: nothing to write."""
        jobs = self.store.using_jobs(uids)
        list_emulating = cache(partial(emulating_nodes, self.store))
        uses: dict[int, JobUse | None] = {}
        for uid in uids:
            if uses and not has_time():
                break
            job = jobs.get(uid)
            uses[uid] = self._use(job, list_emulating) if job and job.record.attempt else None
        return uses

    def _use(self, job: UsingJob, list_emulating: Callable[[], Collection[str]]) -> JobUse | None:
        uid, name = job.record.uid, job.record.name
        try:
            gpus = count_held_gpus(self.store, uid, job.demand, list_emulating)
            events = read_events(self.store, uid) if job.events is None else job.events
            read_steps = steps_reader(self.engines, lambda key: job.primaries.get(key.attempt))
            size = HeldSize(gpus, count_vcpus(job.demand))
            times = job_times(self.store, job.record, size, events, read_steps)
            measured = self.measurements.read(self.store, self.engines, uid, times)
            rows = read_job_use(self.store, self.prices, job, times, measured)
            event = None if self._has_event(uid, events) else self._end_event(job, times, rows)
        except (ValueError, KeyError, TypeError, ArithmeticError) as fault:
            # the other jobs are still written
            _LOG.warning("cannot compute what %s used: %r; usage leaves it out", name, fault)
            return None
        return JobUse(job.record, rows, event)

    def _has_event(self, uid: int, events: Sequence[StoredEvent]) -> bool:
        """Whether a job has its event; of very many events, the last ones were not read."""
        if len(events) >= EVENTS_MAX:
            return bool(self.store.events_of_kind(uid, GOODPUT, limit=1))
        return any(event.kind == GOODPUT for event in events)

    def _end_event(
        self, job: UsingJob, times: JobTimes, rows: Sequence[UsageRow]
    ) -> NewEvent | None:
        """Return the event with the goodput of a job that has just ended.

        None for a job that never had machines, or ended before this release was started.
        """
        noted = job.record.job.status.end_time  # later than the end if no server ran
        is_new = noted is not None and noted.timestamp() > self._now_s() - EVENT_S_MAX
        if not (is_new and times.attempts):
            return None
        return end_event(job_goodput(times, self._now_s()), sum_cost(rows), idle_ratio(rows))

    def _now_s(self) -> float:
        return self.store.now().timestamp()

    def _drop_old(self) -> None:
        day = today(self.store.now())
        if day != self._dropped_day:
            self.store.drop_usage(day - DAYS_MAX)
            self._dropped_day = day
