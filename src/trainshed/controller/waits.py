"""Why attempts wait at their engines, as these say it: stored when it has changed.

An engine that cannot say now says nothing by it: what is known stays.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from trainshed.model.attempt import AttemptKey, Observation, Phase
from trainshed.model.explanation import Explanation
from trainshed.model.status import FINAL, JobState
from trainshed.store.opening import Store
from trainshed.store.records.jobs import Active

_EXPLAINED: Final = frozenset(JobState) - FINAL - {JobState.QUEUED}


class StoredWaits:
    """What one server has stored of the waits of its attempts."""

    def __init__(self, store: Store) -> None:
        """Nothing was stored yet."""
        self._store = store
        self._stored: dict[AttemptKey, Explanation | None] = {}
        self._waiting: set[AttemptKey] = set()

    @property
    def waiting(self) -> Collection[AttemptKey]:
        """The attempts that lay in an engine's queue when they were last looked at."""
        return self._waiting

    def explain(
        self, observations: Iterable[Observation], watched: Mapping[AttemptKey, Active]
    ) -> None:
        """Store what is new of those that are still watched.  Raises StoreFault."""
        by_state: dict[JobState, dict[AttemptKey, Observation]] = {}
        for observation in observations:
            active = watched.get(observation.key)
            if active is None:
                self.forget(observation.key)
            elif self._is_new(observation, active):
                by_state.setdefault(active.state, {})[observation.key] = observation
        for state, changed in by_state.items():
            texts = {key.uid: self._text(observation) for key, observation in changed.items()}
            self._store.explain(texts, state)
            self._stored |= {key: observation.waits for key, observation in changed.items()}

    def keep(self, watched: Collection[AttemptKey]) -> None:
        """Forget all others: another server may have them."""
        self._stored = {key: why for key, why in self._stored.items() if key in watched}
        self._waiting.intersection_update(watched)

    def forget(self, key: AttemptKey) -> None:
        """The job is in another state, and that has taken its explanation away."""
        self._stored.pop(key, None)
        self._waiting.discard(key)

    def _is_new(self, observation: Observation, active: Active) -> bool:
        if observation.phase is Phase.WAITING:
            self._waiting.add(observation.key)
        if observation.waits is None:
            if observation.phase is Phase.UNKNOWN:
                return False
            stored = self._stored.get(observation.key)
            return stored is not None or (active.explained and observation.key not in self._stored)
        is_same = self._stored.get(observation.key) == observation.waits
        return not is_same and active.state in _EXPLAINED

    def _text(self, observation: Observation) -> Explanation | None:
        """With since when it is so: as the engine says it, or since we know."""
        if observation.waits is None or observation.waits.since_s is not None:
            return observation.waits
        since_s = observation.since_s or self._store.now().timestamp()
        return replace(observation.waits, since_s=since_s)
