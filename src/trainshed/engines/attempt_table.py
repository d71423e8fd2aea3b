"""The attempts that an engine keeps in memory, by their keys.

The table makes an entry at its first use.  An engine can make the entry again from the attempt's
folder, so the table may drop any entry whose attempt is over.
"""

import logging
import threading
from collections.abc import Callable, Collection
from typing import Final, Generic, TypeVar

from trainshed.model.attempt import AttemptKey, Observation, Phase

_LOG = logging.getLogger(__name__)

#: Maximum of attempts in the table besides those that the caller needs.
REMEMBERED_MAX: Final = 10_000
_OVER: Final = frozenset({Phase.ENDED, Phase.LOST})

T = TypeVar("T")


class AttemptTable(Generic[T]):
    """Entries by key.  Thread-safe; a caller may hold ``lock`` around several calls."""

    def __init__(
        self,
        make: Callable[[AttemptKey], T],
        read_state: Callable[[T], Observation],
        *,
        is_over: Callable[[T], bool],
    ) -> None:
        """Start without entries.

        ``make`` makes an entry, ``read_state`` observes its attempt, and ``is_over`` says whether
        the attempt is over.  ``read_state`` may raise any error of reading a folder.
        """
        self.lock: Final = threading.RLock()
        self._make = make
        self._read_state = read_state
        self._is_over = is_over
        self._attempts: dict[AttemptKey, T] = {}
        self._unreadable: set[AttemptKey] = set()
        self.version = 0
        """The number of changes so far: entries that were made or dropped."""

    def get(self, key: AttemptKey) -> T:
        """Return the entry of an attempt; make the entry if the table has none."""
        with self.lock:
            if key not in self._attempts:
                self._attempts[key] = self._make(key)
                self.version += 1
            return self._attempts[key]

    def peek(self, key: AttemptKey) -> T | None:
        """Return the entry of an attempt; None: the table has no entry for it."""
        return self._attempts.get(key)

    def list_all(self) -> list[T]:
        """List all entries."""
        with self.lock:
            return list(self._attempts.values())

    def observe(self, key: AttemptKey) -> Observation:
        """Observe an attempt; if its folder cannot be read, log that once and return UNKNOWN."""
        attempt = self.get(key)
        try:
            return self._read_state(attempt)
        except Exception:  # noqa: BLE001 - an unreadable folder must not prevent observing other attempts
            if key not in self._unreadable:
                _LOG.warning("cannot observe the attempt %s", key, exc_info=True)
            self._unreadable.add(key)
            return Observation(key=key, phase=Phase.UNKNOWN)

    def may_live(self, key: AttemptKey, ask: Callable[[T], bool]) -> bool:
        """Return whether a process of an attempt may run; in phase UNKNOWN, ``ask`` decides."""
        phase = self.observe(key).phase
        return phase not in _OVER if phase is not Phase.UNKNOWN else ask(self.get(key))

    def drop(self, keys: Collection[AttemptKey]) -> None:
        """Remove the entries of these attempts."""
        with self.lock:
            for key in keys:
                self._attempts.pop(key, None)
                self._unreadable.discard(key)
            self.version += 1

    def drop_old(self, needed: Collection[AttemptKey]) -> Collection[AttemptKey]:
        """Drop attempts that are over if the table is full; return the keys of dropped attempts.

        Keep the attempts in ``needed``.
        """
        with self.lock:
            if len(self._attempts) <= REMEMBERED_MAX + len(needed):
                return ()
            over = {key for key, attempt in self._attempts.items() if self._is_over(attempt)}
            dropped = over.difference(needed)
            self.drop(dropped)
            return dropped
