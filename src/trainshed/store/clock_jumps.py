"""A clock that has jumped while no server used the database: limits go on as if it had not.

The store's time begins anew with the wall's, so that times that callers see are right.  All moments
that limits are counted from or to move along.  The end of a job does not: callers see it.  So the
jump is noted, and retention leaves it out (``moment_before``).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update
from sqlalchemy.types import BigInteger

from trainshed.store.tables import JOBS, LEASES, MARKS, NODES, RETRY_KEYS

_PREFIX: Final = "jump "
#: Of more only the last are kept: a machine without a battery jumps at each start.
_KEPT_MAX: Final = 100


class ClockJump(NamedTuple):
    """A time that did not pass."""

    at_ns: int
    """The time after it."""
    by_ns: int
    """How far it led; below 0 where the clock went back."""


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
    """Move the moments of limits along, end all leases, and note the jump.

    To be called where no server has a lease.
    """
    for move in (_MOVE_JOBS, _MOVE_NODES, _MOVE_KEYS):
        connection.execute(move, {"by_ns": jump.by_ns})
    connection.execute(delete(LEASES))
    connection.execute(insert(MARKS), {"name": f"{_PREFIX}{jump.at_ns}", "value": jump.by_ns})
    for old in read(connection)[:-_KEPT_MAX]:
        connection.execute(delete(MARKS).where(MARKS.c.name == f"{_PREFIX}{old.at_ns}"))


def read(connection: Connection) -> Sequence[ClockJump]:
    """All jumps that are noted, by the time after them."""
    rows = connection.execute(_JUMPS).all()
    return sorted(ClockJump(int(name.removeprefix(_PREFIX)), by_ns) for name, by_ns in rows)


def moment_before(now_ns: int, span_ns: int, jumps: Sequence[ClockJump]) -> int:
    """The moment from which until now as much time has passed, without the jumps forward.

    A jump back is not left out: what came before it seems younger, and is kept longer.
    """
    moment_ns = now_ns - span_ns
    for jump in sorted(jumps, reverse=True):
        if jump.by_ns > 0 and moment_ns < jump.at_ns <= now_ns:
            moment_ns -= jump.by_ns
    return max(0, moment_ns)
