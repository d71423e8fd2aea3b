"""Counts the commits of the store, and what they change about jobs.

Every change of a job is one commit, so a job that ends is counted once, by the server that wrote
its end.  The waits of a restarted job are counted by the server that returned it to the queue.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from trainshed.lifecycle.outcome import (
    DEADLINE_EXCEEDED,
    FAILED_PRECONDITION,
    INVALID_ARGUMENT,
)
from trainshed.model.bounded import BoundedDict
from trainshed.model.roles import Dialect
from trainshed.model.status import JobState
from trainshed.service.telemetry.counters import Counters
from trainshed.store.records.jobs import JobKind
from trainshed.store.records.steps import CommittedChange

_NS_PER_S: Final = 1e9
#: Jobs whose last change is remembered; of others, waits after a restart are not counted.
_REMEMBERED_MAX: Final = 20_000
#: The dialect of each kind of job; the server itself submits the jobs of trials.
DIALECTS: Final[Mapping[str, Dialect]] = {
    JobKind.ML_JOB.value: Dialect.ML_V1,
    JobKind.CUSTOM_JOB.value: Dialect.AIPLATFORM_V1,
    JobKind.TUNING_JOB.value: Dialect.AIPLATFORM_V1,
    JobKind.TRIAL.value: Dialect.ML_V1,
}
#: States that an attempt leaves for one with nodes, and states that begin such a wait.
_WAITS: Final = frozenset({JobState.QUEUED, JobState.ENQUEUED})


class StoreCounts:
    """Listens to the store, in the thread of its writer."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._waiting: BoundedDict[int, int] = BoundedDict(_REMEMBERED_MAX)
        self._placed: BoundedDict[int, int] = BoundedDict(_REMEMBERED_MAX)

    def committed(self, seconds: float, writes: int, changes: Sequence[CommittedChange]) -> None:
        """Count a commit and the changes that it made."""
        self._counters.committed(seconds, writes)
        for change in changes:
            self._count(change)

    def failed(self, kind: str) -> None:
        """Count a write that was not stored."""
        self._counters.store_failed(kind)

    def _count(self, change: CommittedChange) -> None:
        counters = self._counters
        if change.is_new:
            counters.submitted(change.project, DIALECTS[change.kind].value)
        if change.charged is not None:
            counters.restarted(change.charged.value)
        for is_honoured in change.notices:
            counters.noticed(is_honoured=is_honoured)
        for state, is_early in change.trials:
            counters.trial_finished(state, is_stopped_early=is_early)
        if not change.is_study:
            self._count_phases(change)
        if change.ends:
            self._count_end(change)

    def _count_phases(self, change: CommittedChange) -> None:
        if change.state in _WAITS:
            if change.uid not in self._waiting:
                self._waiting[change.uid] = change.at_ns
            return
        waited_since_ns = self._waiting.pop(change.uid, None)
        if change.placed is not None and waited_since_ns is None and change.attempt == 1:
            waited_since_ns = change.create_ns
        if change.state is JobState.PREPARING or change.begins_running:
            self._count_nodes(change, waited_since_ns)
        if change.begins_running and (placed_ns := self._placed.pop(change.uid, None)):
            self._counters.started((change.at_ns - placed_ns) / _NS_PER_S)

    def _count_nodes(self, change: CommittedChange, waited_since_ns: int | None) -> None:
        """Count a wait that ended with nodes; a step that stays in a state ends none."""
        if waited_since_ns is None:
            return
        self._counters.waited((change.at_ns - waited_since_ns) / _NS_PER_S)
        self._placed[change.uid] = change.at_ns
        if change.placed:
            self._counters.placed(change.placed)

    def _count_end(self, change: CommittedChange) -> None:
        self._placed.pop(change.uid, None)
        self._counters.finished(change.project, change.state.value, find_cause(change))
        if change.has_run and not change.is_study:
            self._counters.ran(change.ran_ns / _NS_PER_S)


def find_cause(change: CommittedChange) -> str:
    """Return why a job ended: none, program, infra, timeout, waited or cancelled."""
    if change.state is JobState.SUCCEEDED:
        return "none"
    code = change.error.code if change.error else None
    if code == DEADLINE_EXCEEDED:
        return "timeout" if change.has_run else "waited"
    if change.state is JobState.CANCELLED:
        return "cancelled"
    return "program" if code in {INVALID_ARGUMENT, FAILED_PRECONDITION} else "infra"
