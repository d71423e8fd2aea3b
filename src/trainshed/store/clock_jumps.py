"""Corrects stored times after a jump of the clock while no server used the database.

The store's time then restarts at the wall clock, so that callers see the correct time.  Times that
a limit is measured from are moved by the jump.  The end times of jobs are not, because callers see
them: the jump is stored, and retention subtracts it (``moment_before``).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update
from sqlalchemy.types import BigInteger

from trainshed.store.tables import JOBS, LEASES, MARKS, NODES, RETRY_KEYS

_PREFIX: Final = "jump "
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
_JUMPS: Final = select(MARKS.c.name, MARKS.c.value).where(MARKS.c.name.startswith(_PREFIX))


def perform(connection: Connection, jump: ClockJump) -> None:
    """Move the times that limits are measured from, delete all leases, and store the jump.

    The caller makes sure that no server uses the database.
    """
    for move in (_MOVE_JOBS, _MOVE_NODES, _MOVE_KEYS):
        connection.execute(move, {"by_ns": jump.by_ns})
    connection.execute(delete(LEASES))
    connection.execute(insert(MARKS), {"name": f"{_PREFIX}{jump.at_ns}", "value": jump.by_ns})
    for old in read(connection)[:-_KEPT_MAX]:
        connection.execute(delete(MARKS).where(MARKS.c.name == f"{_PREFIX}{old.at_ns}"))


def read(connection: Connection) -> Sequence[ClockJump]:
    """Return all stored jumps, sorted by the time after the jump."""
    rows = connection.execute(_JUMPS).all()
    return sorted(ClockJump(int(name.removeprefix(_PREFIX)), by_ns) for name, by_ns in rows)


def moment_before(now_ns: int, span_ns: int, jumps: Sequence[ClockJump]) -> int:
    """Return the time ``span_ns`` before ``now_ns`` in ns, not counting jumps forward.

    Jumps back are ignored: rows from before such a jump seem younger and are kept longer.
    """
    moment_ns = now_ns - span_ns
    for jump in sorted(jumps, reverse=True):
        if jump.by_ns > 0 and moment_ns < jump.at_ns <= now_ns:
            moment_ns -= jump.by_ns
    return max(0, moment_ns)
