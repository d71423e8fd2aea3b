"""Keeps searches until their next page is requested."""

import threading
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

#: An older search is dropped, because it lacks the jobs that began meanwhile.
LIFE_S: Final = 60.0
COUNT_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class PausedSearches:
    """Keeps the newest searches for a minute, by query and position.

    A dropped search is started again.  Thread-safe.
    """

    _searches: dict[Hashable, tuple[float, Iterator[Any]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, key: Hashable, search: Iterator[Any], now_s: float) -> None:
        """Keep a search; replaces an earlier one of the same key."""
        with self._lock:
            self._searches.pop(key, None)
            self._searches[key] = now_s, search
            while len(self._searches) > COUNT_MAX:
                del self._searches[next(iter(self._searches))]

    def take(self, key: Hashable, now_s: float) -> Iterator[Any] | None:
        """Remove and return a search; None if there is none or it is too old."""
        with self._lock:
            kept_s, search = self._searches.pop(key, (now_s, None))
        return search if now_s - kept_s <= LIFE_S else None
