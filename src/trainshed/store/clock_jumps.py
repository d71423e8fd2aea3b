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
    _add(connection, _PREFIX, jump)
    _add_set(connection, jump, is_set=is_set)


def _add_set(connection: Connection, jump: ClockJump, *, is_set: bool) -> None:
    """Store how far the clock is ahead of times before the jump, if it was set.

    A clock that is set back to a time before earlier jumps takes these back.
    """
    undone = [other for other in read_set(connection) if other.at_ns > jump.at_ns]
    for other in undone:
        _delete(connection, _SET_PREFIX, other)
    by_ns = jump.by_ns + sum(other.by_ns for other in undone)
    if by_ns > 0 and (is_set or undone):
        _add(connection, _SET_PREFIX, ClockJump(jump.at_ns, by_ns))


def _add(connection: Connection, prefix: str, jump: ClockJump) -> None:
    connection.execute(insert(MARKS), {"name": f"{prefix}{jump.at_ns}", "value": jump.by_ns})
    for old in _read(connection, prefix)[:-_KEPT_MAX]:
        _delete(connection, prefix, old)


def _delete(connection: Connection, prefix: str, jump: ClockJump) -> None:
    connection.execute(delete(MARKS).where(MARKS.c.name == f"{prefix}{jump.at_ns}"))


def read(connection: Connection) -> Sequence[ClockJump]:
    """Return all stored jumps, sorted by the time after the jump."""
    return _read(connection, _PREFIX)


def read_set(connection: Connection) -> Sequence[ClockJump]:
    """Return the jumps forward of a clock that was set for certain, sorted by the time after."""
    return _read(connection, _SET_PREFIX)


def _read(connection: Connection, prefix: str) -> Sequence[ClockJump]:
    rows = connection.execute(_MARKS, {"prefix": prefix}).all()
    return sorted(ClockJump(int(name.removeprefix(prefix)), by_ns) for name, by_ns in rows)


def on_clock_of_now(stamp_ns: int, jumps: Sequence[ClockJump]) -> int:
    """Return a stored time as a clock that was always right would have shown it.

    ``jumps`` are those of ``read_set``.  Times after a jump that was undone later stay.
    """
    for jump in jumps:
        if stamp_ns < jump.at_ns - jump.by_ns // 2:
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
