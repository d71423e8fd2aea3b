"""Replicas that hang: reported once in their job's story, and ended if that is set (R11).

A hang is reported once for each replica of an attempt, whichever server sees it: the story itself
says what was reported.  By default nothing else is done: a long evaluation may look like a hang.
"""

from dataclasses import dataclass, field

from trainshed.controller import story
from trainshed.controller.steps import events_of_attempt
from trainshed.lifecycle.outcome import AttemptFacts, Judgement, restart_ordered
from trainshed.model.attempt import AttemptKey, Observation, Phase
from trainshed.model.restarts import Cause
from trainshed.model.status import JobState
from trainshed.model.stopping import StopOrder, StopReason
from trainshed.store.opening import Store


@dataclass(slots=True)
class _Known:
    reported: set[str]
    """Replicas whose hang stands in the story."""
    hung: set[str] = field(default_factory=set)
    denied: bool = False
    """Whether a restart was asked for and there was no budget for it."""


class Hangs:
    """What one server knows of the hangs of its attempts."""

    def __init__(self, store: Store, *, restart: bool, grace_s: float) -> None:
        """``restart``: a job with a hung replica is started again."""
        self._store = store
        self._restart = restart
        self._grace_s = grace_s
        self._known: dict[AttemptKey, _Known] = {}

    def look(self, seen: Observation) -> None:
        """Report what is new: who hangs, who goes on.  Cheap if nothing hangs or hung."""
        known = self._known.get(seen.key)
        if known is None:
            if not seen.hung:
                return
            known = self._known[seen.key] = _Known(self._reported(seen.key))
        now = {hang.task_name: hang for hang in seen.hung}
        for task_name in sorted(now.keys() - known.hung - known.reported):
            self._store.add_event(seen.key.uid, story.hung(now[task_name]))
            known.reported.add(task_name)
        for task_name in sorted(known.hung - now.keys()):
            self._store.add_event(seen.key.uid, story.recovered(task_name))
        known.hung = set(now)

    def matters(self, state: JobState, seen: Observation) -> bool:
        """Whether the attempt may have to be ended for a hang."""
        if not (self._restart and seen.hung):
            return False
        known = self._known.get(seen.key)
        is_running = state is JobState.RUNNING and seen.phase is Phase.READY
        return is_running and not (known and known.denied)

    def judge(self, seen: Observation, facts: AttemptFacts) -> Judgement | None:
        """The order to end a hung attempt; None where its budget has nothing left.

        It counts as a fault of the machines: a collective that never completes has mostly lost a
        peer, a link or a device, and a budget for programs that fail is 0 unless somebody sets it.
        """
        first = max(seen.hung, key=lambda hang: hang.seconds)
        order = StopOrder(
            grace_s=self._grace_s,
            reason=StopReason.HANG,
            message=story.hung(first).message,
        )
        found = restart_ordered(order, Cause.INFRA, facts)
        if found is None and seen.key in self._known:
            self._known[seen.key].denied = True
        return found

    def forget(self, key: AttemptKey) -> None:
        """The attempt is over."""
        self._known.pop(key, None)

    def _reported(self, key: AttemptKey) -> set[str]:
        """The replicas of an attempt whose hang was reported before, maybe by another server."""
        events = events_of_attempt(self._store, key.uid, key.attempt)
        return {str(event.data.get("task_name")) for event in events if event.kind == story.HUNG}
