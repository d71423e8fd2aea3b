"""A clock that does not jump when the machine's clock (the wall clock) is set.

Leases and deadlines are future times.  If they were compared with the wall clock, setting it
forward by an hour would end all of them, and setting it back would keep leases of dead servers
valid.  This clock starts at the wall clock's time, counts elapsed time, and approaches the wall
clock slowly.  It is at most a tenth too fast or too slow: a lease of 30 s lasts at least 27 s.

If the wall clock differs by more than a day, this clock does not approach it.

The servers of a machine share this time through the database, also a server that starts after the
machine's clock was set.  If the clock was set by more than a day and no other server runs, a server
starts at the wall clock's time and moves all stored times of limits (``clock_jumps``).
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, bindparam, delete, select

from trainshed.store import clock_jumps
from trainshed.store.clock_jumps import ClockJump
from trainshed.store.tables import LEASES, MARKS
from trainshed.store.upsert import insert

_NS_PER_S: Final = 1_000_000_000
#: The clock may be too fast or too slow by this part of the elapsed time: a tenth.
_DRIFT_PARTS: Final = 10


def since_boot_ns() -> int:
    """Return nanoseconds since the machine started, including sleep; users cannot set it."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


#: A larger difference means that a clock was set.
GAP_NS_MAX: Final = 86_400 * _NS_PER_S


class SteadyClock:
    """Nanoseconds since 1970 that never go back and never jump; safe for threads."""

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, elapsed: Callable[[], int] = since_boot_ns
    ) -> None:
        """Start at the time of ``wall``; ``wall`` and ``elapsed`` return nanoseconds."""
        self._wall = wall
        self._elapsed = elapsed
        self._lock = threading.Lock()
        self._seen_ns = elapsed()
        self._now_ns = wall()

    def __call__(self) -> int:
        with self._lock:
            return self._advance()

    def skew_s(self) -> float:
        """Return by how many seconds the wall clock is ahead; more than a few: it was set."""
        with self._lock:
            return (self._wall() - self._advance()) / _NS_PER_S

    @property
    def offset_ns(self) -> int:
        """The time of this clock minus the time since the machine started, in ns."""
        with self._lock:
            return self._advance() - self._seen_ns

    def go_on_from(self, offset_ns: int) -> None:
        """Continue from the time of another clock of this machine, which had this offset."""
        with self._lock:
            self._seen_ns = self._elapsed()
            self._now_ns = self._seen_ns + offset_ns

    def _advance(self) -> int:
        """Add the elapsed time, approach the wall clock, and return the time."""
        seen_ns = self._elapsed()
        elapsed_ns = max(0, seen_ns - self._seen_ns)
        self._seen_ns += elapsed_ns
        self._now_ns += elapsed_ns
        drift_ns_max = elapsed_ns // _DRIFT_PARTS
        gap_ns = self._wall() - self._now_ns
        if abs(gap_ns) < GAP_NS_MAX:
            self._now_ns += min(drift_ns_max, max(-drift_ns_max, gap_ns))
        return self._now_ns


#: Longer than the interval at which a server renews its lease (``controller.worker``).
RENEWED_S_MAX: Final = 5.0
_POLL_S: Final = 0.25

#: Changes with every start of the machine; offsets of different starts cannot be compared.
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_PREFIX: Final = "clock "
#: The mark with the last time that a server of this database stored.
_LAST: Final = "last time"

_STORED = select(MARKS.c.value).where(MARKS.c.name == bindparam("of_name"))
_OTHERS = delete(MARKS).where(
    MARKS.c.name.startswith(_PREFIX), MARKS.c.name != bindparam("of_name")
)
_LIVE = select(LEASES.c.name).where(LEASES.c.until_ns > bindparam("now_ns")).limit(1)
_new = insert(MARKS)
_PUT = _new.on_conflict_do_update(index_elements=["name"], set_={"value": _new.excluded.value})


def has_live_servers(engine: Engine, clock: Callable[[], int]) -> bool:
    """Whether running servers use a time that differs from this clock by more than a day.

    If there is a lease, waits up to ``RENEWED_S_MAX`` seconds for its renewal.
    """
    name = _name()
    if not isinstance(clock, SteadyClock) or name is None:
        return False

    def last_ns() -> int | None:
        with engine.connect() as connection:
            return connection.execute(_STORED, {"of_name": _LAST}).scalar_one_or_none()

    with engine.connect() as connection:
        gap_ns = _gap_ns(connection, clock, name)
        now_ns = {"now_ns": clock() - gap_ns}
        if abs(gap_ns) < GAP_NS_MAX or connection.execute(_LIVE, now_ns).first() is None:
            return False
    first_ns, until_s = last_ns(), time.monotonic() + RENEWED_S_MAX
    while time.monotonic() < until_s:
        time.sleep(_POLL_S)
        if last_ns() != first_ns:
            return True
    return False


def resume(
    connection: Connection, clock: Callable[[], int], *, has_others: bool
) -> ClockJump | None:
    """Continue a steady clock from the stored time.

    Returns the jump if the wall clock was set by more than a day and ``has_others`` is false, else
    None.  ``has_others`` says whether other servers use the database: then their time is used.
    """
    name = _name()
    if not isinstance(clock, SteadyClock) or name is None:
        return None
    gap_ns = _gap_ns(connection, clock, name)
    jump = None
    offset_ns = connection.execute(_STORED, {"of_name": name}).scalar_one_or_none()
    if offset_ns is not None and abs(gap_ns) < GAP_NS_MAX:
        clock.go_on_from(offset_ns)
    elif has_others:
        clock.go_on_from(clock.offset_ns - gap_ns)
    elif abs(gap_ns) >= GAP_NS_MAX:
        jump = ClockJump(at_ns=clock(), by_ns=gap_ns)
        clock_jumps.perform(connection, jump, is_set=offset_ns is not None)
    connection.execute(_OTHERS, {"of_name": name})
    note(connection, clock)
    return jump


def _gap_ns(connection: Connection, clock: SteadyClock, name: str) -> int:
    """Return by how many ns ``clock`` is ahead of the stored steady clock.

    After a restart of the machine the elapsed time is unknown, so the gap includes it.
    """
    offset_ns = connection.execute(_STORED, {"of_name": name}).scalar_one_or_none()
    if offset_ns is not None:
        return clock.offset_ns - int(offset_ns)
    last_ns = connection.execute(_STORED, {"of_name": _LAST}).scalar_one_or_none()
    return 0 if last_ns is None else clock() - int(last_ns)


def note(connection: Connection, clock: Callable[[], int]) -> None:
    """Store the offset and the time of a steady clock."""
    name = _name()
    if isinstance(clock, SteadyClock) and name is not None:
        connection.execute(_PUT, {"name": name, "value": clock.offset_ns})
        connection.execute(_PUT, {"name": _LAST, "value": clock()})


def _name() -> str | None:
    """Return the name of the mark for this start of the machine; None if unknown."""
    try:
        return _PREFIX + _BOOT.read_text().strip()
    except OSError:
        return None
