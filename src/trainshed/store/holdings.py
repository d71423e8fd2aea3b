"""Caches the attempts that hold places: reads all of them once, then only changes."""

import threading
from collections.abc import Mapping

from trainshed.model.attempt import AttemptKey
from trainshed.placement.jobs import RUNNING_S_DEFAULT, HeldJob
from trainshed.store.opening import Store
from trainshed.store.records.jobs import Holding


def held_job(holding: Holding) -> HeldJob:
    """Return what an attempt holds, for the planner; a claim holds quota and no seats."""
    running_s = holding.running_s_max or RUNNING_S_DEFAULT
    return HeldJob(
        uid=holding.uid,
        project=holding.project,
        name=holding.name,
        demand=holding.demand,
        seats=holding.seats if holding.claim is None else (),
        ends_at_s=holding.since.timestamp() + running_s,
    )


class Holdings:
    """The cached holdings, shared by threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._mark: int | None = None
        self._by_uid: dict[int, Holding] = {}
        self._departures = 0

    @property
    def departures(self) -> int:
        """Return how many jobs have left the queue without holding places, as of the last read."""
        return self._departures

    def refresh(self) -> Mapping[int, Holding]:
        """Read changes; return all holdings by uid, the same object if nothing changed."""
        with self._lock:
            self._read()
            return self._by_uid

    def get_cached(self, key: AttemptKey) -> Holding | None:
        """Return what an attempt held at the last read; None if it was not read."""
        holding = self._by_uid.get(key.uid)
        return holding if holding is not None and holding.attempt == key.attempt else None

    def of(self, key: AttemptKey) -> Holding | None:
        """Return what an attempt holds, reading the store if needed; None if it holds nothing."""
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
            self._mark = mark  # set last: after a fault above, all of it is read again
        self._mark, added, removed = self._store.holding_changed(self._mark)
        if added or removed:
            # copied, not changed in place: callers may still read the previous value
            changed = self._by_uid | {held.uid: held for held in added}
            for uid in removed:
                if changed.pop(uid, None) is None:
                    self._departures += 1
            self._by_uid = changed
