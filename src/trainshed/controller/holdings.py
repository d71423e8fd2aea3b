"""The attempts that hold places, mirrored in memory: read whole once, then what has changed."""

import threading
from collections.abc import Mapping

from trainshed.model.attempt import AttemptKey
from trainshed.store.opening import Store
from trainshed.store.records.jobs import Holding


class Holdings:
    """Shared by the threads of one controller."""

    def __init__(self, store: Store) -> None:
        """Nothing is read before the first ``refresh``."""
        self._store = store
        self._lock = threading.Lock()
        self._mark: int | None = None
        self._by_uid: dict[int, Holding] = {}
        self._departures = 0

    @property
    def departures(self) -> int:
        """How many jobs have left the queue without ever holding places, as far as was read."""
        return self._departures

    def refresh(self) -> Mapping[int, Holding]:
        """Read what has changed; all that hold places, by uid: the same value while none has."""
        with self._lock:
            self._read()
            return self._by_uid

    def get_cached(self, key: AttemptKey) -> Holding | None:
        """What an attempt held when that was last read; None if it was not."""
        holding = self._by_uid.get(key.uid)
        return holding if holding is not None and holding.attempt == key.attempt else None

    def of(self, key: AttemptKey) -> Holding | None:
        """What an attempt holds, read now if it is not known; None if it holds nothing."""
        with self._lock:
            holding = self._by_uid.get(key.uid)
            if holding is None or holding.attempt != key.attempt:
                self._read()
                holding = self._by_uid.get(key.uid)
            return holding if holding is not None and holding.attempt == key.attempt else None

    def _read(self) -> None:
        if self._mark is None:
            mark, _, _ = self._store.holding_changed(0)
            self._by_uid = {held.uid: held for held in self._store.holding()}
            self._mark = mark  # only now: after a fault here all of it is read again
        self._mark, came, gone = self._store.holding_changed(self._mark)
        if came or gone:
            # never changed in place: whoever was given the last one reads on in it
            changed = self._by_uid | {held.uid: held for held in came}
            for uid in gone:
                if changed.pop(uid, None) is None:
                    self._departures += 1
            self._by_uid = changed
