"""Corrects stored times after a jump of the clock while no server used the database.

The store's time then restarts at the wall clock, so that callers see the correct time.  Times that
a limit is measured from are moved by the jump.  The end times of jobs are not, because callers see
them: the jump is stored, and retention subtracts it (``moment_before``).

A jump after the machine was started again may be time in which it was off.  Of other jumps it is
certain that the clock was set: durations subtract them (``on_clock_of_now``).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update
from sqlalchemy.types import BigInteger

from trainshed.store.tables import JOBS, LEASES, MARKS, NODES, RETRY_KEYS

_PREFIX: Final = "jump "
_SET_PREFIX: Final = "set "
#: The largest number of stored jumps: a machine without a clock battery jumps at each start.
_KEPT_MAX: Final = 100


class ClockJump(NamedTuple):
    """A stored jump of the clock."""

    at_ns: int
    """The time after the jump, in ns."""
    by_ns: int
    """The length of the jump, in ns; negative for a jump back."""


_BY: Final = bindparam("by_ns", type_=BigInteger)
_MOVE_JOBS: Final = (
    update(JOBS)
    .where(or_(JOBS.c.end_ns.is_(None), JOBS.c.held_ns.is_not(None)))
    .values(
        {
            name: JOBS.c[name] + _BY
            for name in ("deadline_ns", "running_since_ns", "held_ns", "refused_ns")
        }
    )
)
_MOVE_NODES: Final = update(NODES).values(seen_ns=NODES.c.seen_ns + _BY)
_MOVE_KEYS: Final = update(RETRY_KEYS).values(create_ns=RETRY_KEYS.c.create_ns + _BY)
_MARKS: Final = select(MARKS.c.name, MARKS.c.value).where(
    MARKS.c.name.startswith(bindparam("prefix"))
)


def perform(connection: Connection, jump: ClockJump, *, is_set: bool) -> None:
    """Move the times that limits are measured from, delete all leases, and store the jump.

    ``is_set``: the clock was set for certain.  The caller makes sure that no server uses the
    database.
    """
    for move in (_MOVE_JOBS, _MOVE_NODES, _MOVE_KEYS):
        connection.execute(move, {"by_ns": jump.by_ns})
    connection.execute(delete(LEASES))
    for prefix in (_PREFIX, _SET_PREFIX) if is_set else (_PREFIX,):
        connection.execute(insert(MARKS), {"name": f"{prefix}{jump.at_ns}", "value": jump.by_ns})
        for old in _read(connection, prefix)[:-_KEPT_MAX]:
            connection.execute(delete(MARKS).where(MARKS.c.name == f"{prefix}{old.at_ns}"))


def read(connection: Connection) -> Sequence[ClockJump]:
    """Return all stored jumps, sorted by the time after the jump."""
    return _read(connection, _PREFIX)


def read_set(connection: Connection) -> Sequence[ClockJump]:
    """Return the jumps of a clock that was set for certain, sorted by the time after the jump."""
    return _read(connection, _SET_PREFIX)


def _read(connection: Connection, prefix: str) -> Sequence[ClockJump]:
    rows = connection.execute(_MARKS, {"prefix": prefix}).all()
    return sorted(ClockJump(int(name.removeprefix(prefix)), by_ns) for name, by_ns in rows)


def on_clock_of_now(stamp_ns: int, jumps: Sequence[ClockJump]) -> int:
    """Return a stored time as the clock would show it now: after the sorted jumps forward.

    Jumps back are ignored, because times before and after such a jump are the same.
    """
    for jump in jumps:
        if jump.by_ns > 0 and stamp_ns < jump.at_ns - jump.by_ns // 2:
            stamp_ns += jump.by_ns
    return stamp_ns


def moment_before(now_ns: int, span_ns: int, jumps: Sequence[ClockJump]) -> int:
    """Return the time ``span_ns`` before ``now_ns`` in ns, not counting jumps forward.

    Jumps back are ignored: rows from before such a jump seem younger and are kept longer.
    """
    moment_ns = now_ns - span_ns
    for jump in sorted(jumps, reverse=True):
        if jump.by_ns > 0 and moment_ns < jump.at_ns <= now_ns:
            moment_ns -= jump.by_ns
    return max(0, moment_ns)
