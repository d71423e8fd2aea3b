"""Defines the front of the queue, and the explanation of jobs behind it.

The scheduler considers the first ``FRONT_MAX`` queued jobs, and stores why each of them waits.  For
jobs behind them nothing is stored: ``EXPLANATION`` derives the reason when the job is read.
"""

from typing import Any, Final

from sqlalchemy import ColumnElement, and_, case, literal, literal_column, select, tuple_

from trainshed.model.explanation import Explanation, Reason
from trainshed.store import codec
from trainshed.store.tables import JOBS

FRONT_MAX: Final = 2000
BEHIND_FRONT: Final = Explanation(
    reason=Reason.BEHIND_QUEUE,
    message=f"At least {FRONT_MAX} older or more urgent jobs wait already.",
    blockers=(f"{FRONT_MAX} waiting jobs",),
)

#: A literal, not a parameter: databases use a partial index only if the query has its condition.
QUEUED: Final = JOBS.c.state == literal_column("'QUEUED'")
#: The value of the column ``refusals`` of a held job, which waits until a user resumes it.
HELD: Final = -1
#: The scheduler leaves out held jobs.
IS_FREE: Final = JOBS.c.refusals >= 0
IN_LINE: Final = (JOBS.c.rank, JOBS.c.create_ns, JOBS.c.uid)


def _is_behind() -> ColumnElement[bool]:
    """Return the SQL condition that a job waits behind the front, and nothing is stored for it."""
    queue = JOBS.alias("queue")
    place = (queue.c.rank, queue.c.create_ns, queue.c.uid)
    last_of_front = (
        select(*place)
        .where(queue.c.state == literal_column("'QUEUED'"))
        .order_by(*place)
        .limit(1)
        .offset(FRONT_MAX - 1)
        .scalar_subquery()
    )
    return and_(QUEUED, JOBS.c.explanation.is_(None), tuple_(*IN_LINE) > last_of_front)


IS_BEHIND: Final = _is_behind().label("is_behind")
#: Queries for users select it instead of the column ``explanation``: the stored explanation, or
#: BEHIND_FRONT, or NULL.
EXPLANATION: Final[ColumnElement[Any]] = case(
    (_is_behind(), literal(codec.EXPLANATION.encode(BEHIND_FRONT))), else_=JOBS.c.explanation
).label("explanation")
