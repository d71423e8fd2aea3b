"""One time for all servers of a machine, and for one that starts after its clock was set.

What one server has written as a moment, another compares with its own time, and so does the same
server after a restart.  So whoever renews its lease notes how its clock stands to the time since
the machine was started, and whoever opens the store goes on from there.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, bindparam, delete, select
from sqlalchemy.dialects.postgresql import insert  # SQLite takes its ON CONFLICT word for word

from trainshed.store.steady_clock import SteadyClock
from trainshed.store.tables import MARKS

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
