"""Finds changes with which waiting jobs would start.

A changed job is submitted again, as the youngest of its priority: less urgent jobs come after it,
all others before.  So changes are sought when the pass has decided about all jobs of one priority.
The unchanged job is then gone from the queue.  If others wait behind it, they would start first, so
that such a job needs a pass of its own.
"""

from collections.abc import Collection, Iterable
from itertools import islice

from trainshed.model.explanation import Change
from trainshed.placement import messages
from trainshed.placement.change import admitting_change
from trainshed.placement.jobs import QueuedJob
from trainshed.placement.planning_pass import PlanningPass


class Offers:
    """The changes found in one pass, and the jobs that need a pass of their own."""

    def __init__(self, uids: Collection[int], first: int) -> None:
        """Seek changes for the ``first`` jobs that wait and for ``uids``."""
        self.changes: dict[int, Change | None] = {}
        self.apart: list[QueuedJob] = []
        self._uids = uids
        self._first = first
        self._cursor = 0

    def look(self, state: PlanningPass) -> None:
        """Seek changes for the jobs that the pass has made wait since the last call."""
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
    """Return the change with which the job would start as the last of the decided ones."""
    return admitting_change(
        job.demand,
        state.fleet.topology,
        lambda demand: state.admits(job, demand),
        messages.WOULD_START,
    )


def without(queue: Iterable[QueuedJob], job: QueuedJob) -> list[QueuedJob]:
    """List the jobs that would start before a job that is submitted again."""
    return [one for one in queue if one.uid != job.uid and one.priority >= job.priority]
