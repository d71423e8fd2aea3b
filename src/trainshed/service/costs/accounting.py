"""Writes what jobs used of their machines: after each change of their seats, and while they run.

The server that holds the scheduler's lease does it.  The rows of a job are computed from its events
and its usage and replaced whole, so that repeating it changes nothing and a kill loses nothing.
"""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from trainshed.engines.several import Engines
from trainshed.model.event_kinds import GOODPUT
from trainshed.planning.goodput import JobTimes, job_goodput
from trainshed.planning.usage_days import today
from trainshed.service.costs.gpu_measurements import GpuMeasurements
from trainshed.service.costs.job_use import idle_ratio, read_job_use, sum_cost
from trainshed.service.costs.prices import PriceSource
from trainshed.service.goodput.words import end_event
from trainshed.service.learning.turns import CpuBudget
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.steps import NewEvent
from trainshed.store.records.usage import UsageRow

#: The most jobs that one turn reads; it can process fewer.
_AT_ONCE: Final = 25
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
    read_times: Callable[[JobRecord], JobTimes]
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
        jobs = self.store.changed_jobs(_AT_ONCE)
        self._has_backlog = len(jobs) == _AT_ONCE
        skipped = None
        for job in jobs:
            if not has_time():
                self._has_backlog = True
                break
            skipped = job.mark if job.is_held else None
            if not job.is_held:
                self._write(job.uid, job.mark)
        if skipped is not None:
            self.store.write_usage(None, (), skipped)

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
        for uid in sorted(self._due_s, key=lambda uid: self._due_s[uid]):
            if self._due_s[uid] > now_s or not has_time():
                return
            self._write(uid)
            self._due_s[uid] = now_s + REFRESH_S
            if uid not in self._held:
                del self._due_s[uid]

    def _write(self, uid: int, mark: int | None = None) -> None:
        record = self.store.job_by_uid(uid)
        if record is None or not record.attempt:
            self.store.write_usage(None, (), mark)
            return
        try:
            times = self.read_times(record)
            measured = self.measurements.read(self.store, self.engines, uid, times)
            rows = read_job_use(self.store, self.prices, record, times, measured)
            event = self._end_event(uid, times, rows)
        except (ValueError, KeyError, TypeError, ArithmeticError) as fault:
            # the other jobs are still written
            _LOG.warning("cannot compute what %s used: %r; usage leaves it out", record.name, fault)
            self.store.write_usage(None, (), mark)
        else:
            self.store.write_usage(record, rows, mark, event)

    def _end_event(self, uid: int, times: JobTimes, rows: Sequence[UsageRow]) -> NewEvent | None:
        """Return the event with the goodput of a job that has just ended; None: it has one.

        None also for a job that never had machines, or ended before this release was started.
        """
        is_new = times.ended_s is not None and times.ended_s > self._now_s() - EVENT_S_MAX
        if not (is_new and times.attempts) or self.store.events_of_kind(uid, GOODPUT, limit=1):
            return None
        return end_event(job_goodput(times, self._now_s()), sum_cost(rows), idle_ratio(rows))

    def _now_s(self) -> float:
        return self.store.now().timestamp()

    def _drop_old(self) -> None:
        day = today(self.store.now())
        if day != self._dropped_day:
            self.store.drop_usage(day - DAYS_MAX)
            self._dropped_day = day
