"""Limits the log lines of warnings that any client can cause."""

import logging
import math
from collections.abc import Callable
from typing import Final

#: Seconds between two lines of a kind.
BETWEEN_S: Final = 10.0


class RareLog:
    """Logs how many connections were closed or refused; action and reason are a few fixed texts."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float]) -> None:
        """``clock`` returns a monotonic time in seconds."""
        self._log = log
        self._clock = clock
        self._logged_at: dict[tuple[str, str], float] = {}
        self._pending: dict[tuple[str, str], tuple[int, str]] = {}

    def warning(self, action: str, why: str, address: str = "") -> None:
        """Log a connection now, or count it for the next line of its kind."""
        count, _ = self._pending.get((action, why), (0, ""))
        self._pending[action, why] = (count + 1, address)
        self._log_if_due((action, why))

    def flush(self) -> None:
        """Log the counts that are due."""
        for kind in list(self._pending):
            self._log_if_due(kind)

    def _log_if_due(self, kind: tuple[str, str]) -> None:
        now = self._clock()
        if now < self._logged_at.get(kind, -math.inf) + BETWEEN_S:
            return
        self._logged_at[kind] = now
        count, address = self._pending.pop(kind)
        last = f", the last from {address}" if address else ""
        self._log.warning("%s %d connection(s)%s: %s", kind[0], count, last, kind[1])
