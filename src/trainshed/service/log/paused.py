"""Searches that wait for the request of their next page."""

import threading
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

#: Of a search that is older, jobs that began meanwhile would be missing.
LIFE_S: Final = 60.0
COUNT_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class PausedSearches:
    """Keeps the newest searches for a minute, each under the question and the place of its page.

    A search that is gone is begun again.  Thread-safe.
    """

    _searches: dict[Hashable, tuple[float, Iterator[Any]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, key: Hashable, search: Iterator[Any], now_s: float) -> None:
        """Keep a search in the place of an earlier one of the same key."""
        with self._lock:
            self._searches.pop(key, None)
            self._searches[key] = now_s, search
            while len(self._searches) > COUNT_MAX:
                del self._searches[next(iter(self._searches))]

    def take(self, key: Hashable, now_s: float) -> Iterator[Any] | None:
        """Remove a search and return it; None where there is none, or an old one."""
        with self._lock:
            kept_s, search = self._searches.pop(key, (now_s, None))
        return search if now_s - kept_s <= LIFE_S else None
