"""Reports hung replicas once in their job's story, and restarts the job if configured.

Each replica of an attempt is reported once, by any server: the servers read the story to see what
was reported.  By default nothing else happens: a long evaluation may look like a hang.
"""

from dataclasses import dataclass, field

from trainshed.controller import story
from trainshed.controller.steps import events_of_attempt
from trainshed.lifecycle.outcome import AttemptFacts, Judgement, restart_ordered
from trainshed.model import event_kinds
from trainshed.model.attempt import AttemptKey, Observation, Phase
from trainshed.model.restarts import Cause
from trainshed.model.status import JobState
from trainshed.model.stopping import StopOrder, StopReason
from trainshed.store.opening import Store


@dataclass(slots=True)
class _HangRecord:
    reported: set[str]
    """Replicas whose hang is in the story."""
    hung: set[str] = field(default_factory=set)
    denied: bool = False
    """Whether a restart was requested and the job had no restart budget left."""


class Hangs:
    """The hangs of one server's attempts."""

    def __init__(self, store: Store, *, restart: bool, grace_s: float) -> None:
        """``restart``: restart a job with a hung replica, after ``grace_s`` seconds of notice."""
        self._store = store
        self._restart = restart
        self._grace_s = grace_s
        self._records: dict[AttemptKey, _HangRecord] = {}

    def report_changes(self, observation: Observation) -> None:
        """Report the replicas that began to hang or recovered since the last call."""
        record = self._records.get(observation.key)
        if record is None:
            if not observation.hung:
                return
            record = self._records[observation.key] = _HangRecord(
                self._read_reported(observation.key)
            )
        hangs_by_task = {hang.task_name: hang for hang in observation.hung}
        for task_name in sorted(hangs_by_task.keys() - record.hung - record.reported):
            self._store.add_event(observation.key.uid, story.hung(hangs_by_task[task_name]))
            record.reported.add(task_name)
        for task_name in sorted(record.hung - hangs_by_task.keys()):
            self._store.add_event(observation.key.uid, story.recovered(task_name))
        record.hung = set(hangs_by_task)

    def count(self) -> int:
        """Return the number of replicas that hang now; callable from any thread."""
        return sum(len(record.hung) for record in tuple(self._records.values()))

    def matters(self, state: JobState, observation: Observation) -> bool:
        """Return whether the attempt may have to be ended because of a hang."""
        if not (self._restart and observation.hung):
            return False
        record = self._records.get(observation.key)
        is_running = state is JobState.RUNNING and observation.phase is Phase.READY
        return is_running and not (record and record.denied)

    def judge(self, observation: Observation, facts: AttemptFacts) -> Judgement | None:
        """Return the order to end a hung attempt; None if its restart budget is used up.

        A hang counts as a machine fault: the cause of a collective that never completes is
        mostly a lost peer, link or device.  The default budget for failing programs is 0.
        """
        first = max(observation.hung, key=lambda hang: hang.seconds)
        order = StopOrder(
            grace_s=self._grace_s,
            reason=StopReason.HANG,
            message=story.hung(first).message,
        )
        judgement = restart_ordered(order, Cause.INFRA, facts)
        if judgement is None and observation.key in self._records:
            self._records[observation.key].denied = True
        return judgement

    def forget(self, key: AttemptKey) -> None:
        """Forget an attempt that has ended."""
        self._records.pop(key, None)

    def _read_reported(self, key: AttemptKey) -> set[str]:
        """Return the replicas whose hang was reported before, perhaps by another server."""
        events = events_of_attempt(self._store, key.uid, key.attempt)
        return {
            str(event.data.get("task_name")) for event in events if event.kind == event_kinds.HUNG
        }
