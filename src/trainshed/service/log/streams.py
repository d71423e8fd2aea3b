"""Limits the log streams of a caller: each holds a connection and polls for new lines."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from trainshed.model.access import Caller
from trainshed.model.refusals import Code, Refusal


class Streams:
    """Counts the streams of every caller.  Thread-safe."""

    def __init__(self, most: int | None = None) -> None:
        """``most`` streams of one caller at a time; None is no limit."""
        self._most = most
        self._lock = threading.Lock()
        self._open: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def one(self, caller: Caller) -> Iterator[None]:
        """Count as one of the caller's streams.  Raises Refusal (RESOURCE_EXHAUSTED)."""
        self._begin(caller)
        try:
            yield
        finally:
            self._end(caller)

    def count(self) -> int:
        """Return the number of open streams."""
        with self._lock:
            return self._open.total()

    def _begin(self, caller: Caller) -> None:
        with self._lock:
            key = (caller.project, caller.name)
            if self._most is not None and self._open[key] >= self._most:
                raise Refusal(
                    Code.RESOURCE_EXHAUSTED,
                    f"{caller.name} streams {self._most} logs already, and may have no more at "
                    "once (limits.streams_max): end one of them",
                )
            self._open[key] += 1

    def _end(self, caller: Caller) -> None:
        with self._lock:
            key = (caller.project, caller.name)
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]
