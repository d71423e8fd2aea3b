"""Decides which jobs go into the queues of engines that place jobs themselves.

Each queue holds a limited number of attempts and receives a few at a time, because the same
thread performs the launches of other engines.  After an engine refuses a job, the server offers
it one job at a time, after a pause that doubles: each try uses up an attempt number.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from trainshed.model.explanation import Explanation, Reason
from trainshed.placement.jobs import ChosenEngine
from trainshed.store.records.jobs import WaitingJob

#: Chooses the engine of a job.
Choose = Callable[[WaitingJob], ChosenEngine]

#: The most unconfirmed launches into one queue.
AT_ONCE_MAX: Final = 100
PAUSE_S: Final = 1.0
PAUSE_S_MAX: Final = 60.0

_Group = tuple[str, str, frozenset[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class QueueHandover:
    """The state of the engines' queues in one pass."""

    chosen: Mapping[int, ChosenEngine]
    """The engines of the waiting jobs, by uid."""
    enqueued: Mapping[str, int]
    """The number of attempts in the queue of each engine."""
    under_way: Mapping[str, int]
    """The number of unconfirmed launches of each engine."""
    now: datetime
    pauses: dict[_Group, datetime] = field(default_factory=dict)
    """The time at which the server offers the engine a job of a refused group again."""

    def find_blocked(self, front: Sequence[WaitingJob]) -> Mapping[int, Explanation]:
        """Return why the jobs wait whose engine accepts none now; the pass skips them."""
        for job in front:
            if job.refused is not None:
                self._pause(job, job.refused)
        reasons = (
            (job.uid, self._explain_closed(job)) for job in front if self.chosen[job.uid].places
        )
        return {uid: why for uid, why in reasons if why is not None}

    def admit(
        self, jobs: Iterable[WaitingJob]
    ) -> tuple[Sequence[WaitingJob], Mapping[int, Explanation]]:
        """Return the jobs to hand over now, in this order, and why the others wait."""
        admitted: list[WaitingJob] = []
        waiting: dict[int, Explanation] = {}
        counts, groups = Counter[str](), set[_Group]()
        for job in jobs:
            chosen = self.chosen[job.uid]
            group = self._group(job)
            why = self._explain_full(chosen, counts[chosen.name])
            if (
                why is None
                and group in self.pauses
                and (group in groups or self._has_launches(chosen))
            ):
                why = _explain_refusal(chosen)
            if why is not None:
                waiting[job.uid] = why
                continue
            groups.add(group)
            counts[chosen.name] += 1
            admitted.append(job)
        return admitted, waiting

    def next_s(self) -> float | None:
        """Return the seconds until the next pause ends; None without a pause."""
        left = [(until - self.now).total_seconds() for until in self.pauses.values()]
        return min((s for s in left if s > 0), default=None)

    def _group(self, job: WaitingJob) -> _Group:
        """Return the key of jobs that an engine refuses together, by account or partition."""
        chosen = self.chosen[job.uid]
        return chosen.name, job.project, frozenset(chosen.wants.items())

    def _pause(self, job: WaitingJob, refused: datetime) -> None:
        pause_s = min(PAUSE_S_MAX, PAUSE_S * 2.0 ** min(job.refusals - 1, 16))
        until, group = refused + timedelta(seconds=pause_s), self._group(job)
        self.pauses[group] = max(until, self.pauses.get(group, until))

    def _explain_closed(self, job: WaitingJob) -> Explanation | None:
        chosen = self.chosen[job.uid]
        if chosen.closed is not None:
            return chosen.closed
        until = self.pauses.get(self._group(job))
        return _explain_refusal(chosen) if until is not None and until > self.now else None

    def _has_launches(self, chosen: ChosenEngine) -> bool:
        return self.under_way.get(chosen.name, 0) > 0

    def _explain_full(self, chosen: ChosenEngine, count: int) -> Explanation | None:
        enqueued = self.enqueued.get(chosen.name, 0) + count
        if chosen.enqueued_max is not None and enqueued >= chosen.enqueued_max:
            return Explanation(
                reason=Reason.ENGINE_FULL,
                message=f"The queue of {chosen.name} is full: it holds {enqueued} jobs.",
            )
        under_way = self.under_way.get(chosen.name, 0) + count
        if under_way >= AT_ONCE_MAX:
            return Explanation(
                reason=Reason.BEHIND_QUEUE,
                message=f"{under_way} other jobs are being handed over to {chosen.name} first.",
            )
        return None


def _explain_refusal(chosen: ChosenEngine) -> Explanation:
    return Explanation(
        reason=Reason.ENGINE_FULL,
        message=f"{chosen.name} accepts no more such jobs for now; the server will try again.",
    )
