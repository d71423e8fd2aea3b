"""How long attempts wait in the queues of engines: from their hand-over to the start of anything.

Only what this server has handed over itself is counted; another may have taken it over since.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from trainshed.model.attempt import AttemptKey, Observation, Phase

#: Attempts that wait and are remembered; beyond it the oldest are not counted.
_REMEMBERED_MAX: Final = 100_000
_WAITS: Final = frozenset({Phase.WAITING, Phase.UNKNOWN})


class Waited(NamedTuple):
    """Of so many attempts, so many seconds together."""

    attempts: int = 0
    seconds: float = 0.0


class QueueWaits:
    """Measures for all engines of a server.  Thread-safe."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Nothing has been handed over yet."""
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._since: dict[AttemptKey, float] = {}
        self._waited: dict[str, Waited] = {}

    def handed_over(self, key: AttemptKey) -> None:
        """An attempt goes into a queue; what is said again counts from the first time."""
        with self._lock:
            if len(self._since) >= _REMEMBERED_MAX:
                del self._since[next(iter(self._since))]
            self._since.setdefault(key, self._monotonic())

    def record(self, engine: str, observations: Iterable[Observation]) -> None:
        """What an engine says of its attempts; the end of a wait is counted once."""
        if not self._since:
            return
        over = [observation.key for observation in observations if observation.phase not in _WAITS]
        now = self._monotonic()
        with self._lock:
            for since in (self._since.pop(key, None) for key in over):
                if since is not None:
                    before = self._waited.get(engine, Waited())
                    self._waited[engine] = Waited(before.attempts + 1, before.seconds + now - since)

    def waited(self) -> Mapping[str, Waited]:
        """By engine, since this server has begun."""
        with self._lock:
            return dict(self._waited)
