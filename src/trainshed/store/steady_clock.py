"""A clock that goes on when the machine's is set.

Leases and deadlines are moments that lie ahead.  Were they compared with the wall clock, setting it
forward by an hour would end them all at once, and setting it back would let the dead live on.  This
clock begins with the wall's time, counts what really passes, and draws near to the wall so slowly
that it is never more than a tenth too fast or too slow: a lease of 30 seconds lasts 27 at least.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

_NS_PER_S: Final = 1_000_000_000
#: The part of the time that passes by which it may be too fast or too slow.
_DRIFT_PARTS: Final = 10


def since_boot_ns() -> int:
    """What has passed since the machine was started, sleep included; nobody can set it."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class SteadyClock:
    """Nanoseconds since 1970 that never go back and never jump; safe for threads."""

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, elapsed: Callable[[], int] = since_boot_ns
    ) -> None:
        """Begin with the wall's time; both are asked for nanoseconds."""
        self._wall = wall
        self._elapsed = elapsed
        self._lock = threading.Lock()
        self._seen_ns = elapsed()
        self._now_ns = wall()

    def __call__(self) -> int:
        """The time."""
        with self._lock:
            return self._advance()

    def skew_s(self) -> float:
        """How far the wall is ahead, in seconds; more than a few tell that it was set."""
        with self._lock:
            return (self._wall() - self._advance()) / _NS_PER_S

    @property
    def offset_ns(self) -> int:
        """The time less what has passed since the start of the machine."""
        with self._lock:
            return self._advance() - self._seen_ns

    def go_on_from(self, offset_ns: int) -> None:
        """Take the time of another clock of this machine, given by its offset."""
        with self._lock:
            self._seen_ns = self._elapsed()
            self._now_ns = self._seen_ns + offset_ns

    def _advance(self) -> int:
        seen_ns = self._elapsed()
        passed_ns = max(0, seen_ns - self._seen_ns)
        self._seen_ns += passed_ns
        self._now_ns += passed_ns
        drift_ns_max = passed_ns // _DRIFT_PARTS
        gap_ns = self._wall() - self._now_ns
        self._now_ns += min(drift_ns_max, max(-drift_ns_max, gap_ns))
        return self._now_ns
