"""Finds changes with which waiting jobs would start.

To change a job, its owner submits it again.  It is then the youngest job of its priority.  So the
search for changes begins when the pass has decided about all jobs of that priority.  The unchanged
job is no longer in the queue then, so jobs that waited behind it may start first.  For such a job
the planner simulates a separate pass without it.
"""

from collections.abc import Collection, Iterable
from itertools import islice

from trainshed.model.explanation import Change
from trainshed.placement import messages
from trainshed.placement.change import admitting_change
from trainshed.placement.jobs import QueuedJob
from trainshed.placement.planning_pass import PlanningPass


class Offers:
    """The changes found in one pass, and the jobs that need a separate pass."""

    def __init__(self, uids: Collection[int], first: int) -> None:
        """Search for changes for the first ``first`` waiting jobs and for ``uids``."""
        self.changes: dict[int, Change | None] = {}
        self.apart: list[QueuedJob] = []
        self._uids = uids
        self._first = first
        self._cursor = 0

    def collect(self, state: PlanningPass) -> None:
        """Search for changes for the jobs that the pass added to ``waits`` since the last call."""
        for wait in islice(state.waits.values(), self._cursor, None):
            self._cursor += 1
            if self._cursor > self._first and wait.job.uid not in self._uids:
                continue
            if wait.job.seatless:  # only its engine knows whether it would start
                continue
            if wait.reserved is not None or wait.job.uid in state.quota_blockers:
                self.apart.append(wait.job)
            else:
                self.changes[wait.job.uid] = offer(state, wait.job)


def offer(state: PlanningPass, job: QueuedJob) -> Change | None:
    """Return a change with which the job would start after the jobs already decided, or None."""
    return admitting_change(
        job.demand,
        state.fleet.topology,
        lambda demand: state.admits(job, demand),
        messages.WOULD_START,
    )


def without(queue: Iterable[QueuedJob], job: QueuedJob) -> list[QueuedJob]:
    """List the jobs that would start before a job that is submitted again."""
    return [other for other in queue if other.uid != job.uid and other.priority >= job.priority]
