"""A clock that goes on when the machine's is set.

Leases and deadlines are moments that lie ahead.  Were they compared with the wall clock, setting it
forward by an hour would end them all at once, and setting it back would let the dead live on.  This
clock begins with the wall's time, counts what really passes, and draws near to the wall so slowly
that it is never more than a tenth too fast or too slow: a lease of 30 seconds lasts 27 at least.

The servers of a machine share one such time through the database, also one that starts after the
machine's clock was set.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, bindparam, delete, select
from sqlalchemy.dialects.postgresql import insert  # SQLite takes its ON CONFLICT word for word

from trainshed.store.tables import MARKS

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


#: A clock that was wrong by more than this was never right: it is not worth going on with.
GAP_S_MAX: Final = 86_400.0

#: Differs from start to start of the machine; what has passed since cannot be compared then.
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_PREFIX: Final = "clock "

_KNOWN = select(MARKS.c.value).where(MARKS.c.name == bindparam("of_name"))
_OTHERS = delete(MARKS).where(
    MARKS.c.name.startswith(_PREFIX), MARKS.c.name != bindparam("of_name")
)
_new = insert(MARKS)
_PUT = _new.on_conflict_do_update(index_elements=["name"], set_={"value": _new.excluded.value})


def resume(connection: Connection, clock: Callable[[], int]) -> None:
    """Let a steady clock go on from the time that was noted since the machine was started."""
    name = _name()
    if not isinstance(clock, SteadyClock) or name is None:
        return
    connection.execute(_OTHERS, {"of_name": name})
    known = connection.execute(_KNOWN, {"of_name": name}).scalar_one_or_none()
    if known is not None and abs(clock.offset_ns - known) < GAP_S_MAX * 1_000_000_000:
        clock.go_on_from(known)
    note(connection, clock)


def note(connection: Connection, clock: Callable[[], int]) -> None:
    """Note how a steady clock stands."""
    name = _name()
    if isinstance(clock, SteadyClock) and name is not None:
        connection.execute(_PUT, {"name": name, "value": clock.offset_ns})


def _name() -> str | None:
    try:
        return _PREFIX + _BOOT.read_text().strip()
    except OSError:
        return None
