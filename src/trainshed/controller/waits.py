"""Stores the engines' reasons why attempts wait, when they change.

While an engine gives no reason, the last reason stays.
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
    """The wait reasons that one server has stored for its attempts."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stored: dict[AttemptKey, Explanation | None] = {}

    def explain(
        self, observations: Iterable[Observation], watched: Mapping[AttemptKey, Active]
    ) -> None:
        """Store changed reasons of attempts that are still watched.  Raises StoreFault."""
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
        """Forget all other attempts: another server may have them."""
        self._stored = {key: why for key, why in self._stored.items() if key in watched}

    def forget(self, key: AttemptKey) -> None:
        """Forget an attempt whose job changed state, which removed its explanation."""
        self._stored.pop(key, None)

    def _is_new(self, observation: Observation, active: Active) -> bool:
        if observation.waits is None:
            if observation.phase is Phase.UNKNOWN:
                return False
            stored = self._stored.get(observation.key)
            return stored is not None or (active.explained and observation.key not in self._stored)
        is_same = self._stored.get(observation.key) == observation.waits
        return not is_same and active.state in _EXPLAINED

    def _text(self, observation: Observation) -> Explanation | None:
        """Return the reason with its start: the engine's, or the time of the first observation."""
        if observation.waits is None or observation.waits.since_s is not None:
            return observation.waits
        since_s = observation.since_s or self._store.now().timestamp()
        return replace(observation.waits, since_s=since_s)
