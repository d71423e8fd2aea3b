"""Writes what jobs used of their machines: after each change of their seats, and while they run.

The server that holds the scheduler's lease does it.  The rows of a job are computed from its events
and its usage and replaced whole, so that repeating it changes nothing and a kill loses nothing.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from trainshed.planning.usage_days import today
from trainshed.service.costs.held_gpus import FleetReads
from trainshed.service.costs.job_accounts import JobAccounts
from trainshed.service.learning.turns import CpuBudget
from trainshed.store.opening import Store
from trainshed.store.records.usage import JobUse

#: The most jobs that one turn reads; it can process fewer.
_AT_ONCE: Final = 50
#: Seconds after which the rows of a job that holds machines are written again.
REFRESH_S: Final = 300.0
#: Seconds between two lists of the jobs that hold machines.
LIST_S: Final = 30.0
#: Days for which rows are stored.
DAYS_MAX: Final = 1100


@dataclass(slots=True, kw_only=True)
class Accounting:
    """Keeps the rows of ``attempt_usage`` up to date.  Safe for several servers."""

    store: Store
    accounts: JobAccounts
    leads: Callable[[], bool]
    """Whether this server holds the scheduler's lease."""
    turns: CpuBudget
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
        fleet = FleetReads(self.store)
        uses: dict[int, JobUse | None] = {}
        for uid in uids:
            if uses and not has_time():
                break
            job = jobs.get(uid)
            uses[uid] = self.accounts.account(job, fleet) if job else None
        return uses

    def _drop_old(self) -> None:
        day = today(self.store.now())
        if day != self._dropped_day:
            self.store.drop_usage(day - DAYS_MAX)
            self._dropped_day = day
