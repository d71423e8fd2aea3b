"""Measures how long attempts wait in the queues of engines, from their launch to their start.

Only attempts that this server itself has launched are counted.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from trainshed.model.attempt import AttemptKey, Observation, Phase

#: Maximum of waiting attempts in memory; above this, the oldest attempt is dropped.
_REMEMBERED_MAX: Final = 100_000
_WAITS: Final = frozenset({Phase.WAITING, Phase.UNKNOWN})


class WaitTotal(NamedTuple):
    """The number of attempts, and the sum of their waiting times."""

    attempts: int = 0
    seconds: float = 0.0


class QueueWaits:
    """The waiting times of all engines of a server.  Thread-safe."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Start without attempts; ``monotonic`` returns a time in seconds."""
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._start_times: dict[AttemptKey, float] = {}
        self._totals: dict[str, WaitTotal] = {}

    def start_wait(self, key: AttemptKey) -> None:
        """Store the time at which an attempt enters an engine's queue; keep the first time."""
        with self._lock:
            if len(self._start_times) >= _REMEMBERED_MAX:
                del self._start_times[next(iter(self._start_times))]
            self._start_times.setdefault(key, self._monotonic())

    def record(self, engine: str, observations: Iterable[Observation]) -> None:
        """Count the wait of each attempt that an engine observes as started or ended, once."""
        if not self._start_times:
            return
        over = [observation.key for observation in observations if observation.phase not in _WAITS]
        now = self._monotonic()
        with self._lock:
            for started in (self._start_times.pop(key, None) for key in over):
                if started is not None:
                    before = self._totals.get(engine, WaitTotal())
                    self._totals[engine] = WaitTotal(
                        before.attempts + 1, before.seconds + now - started
                    )

    def totals(self) -> Mapping[str, WaitTotal]:
        """Return the number and the total time of the waits since the server's start, by engine."""
        with self._lock:
            return dict(self._totals)
