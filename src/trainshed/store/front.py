"""The front of the queue, and why a job behind it waits.

The scheduler looks at the first ``FRONT_MAX`` queued jobs, and stores why each of them waits.  Of
a job behind them nothing is stored: ``EXPLANATION`` derives the reason when the job is read.
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

#: Written out, not bound: a partial index is used only where its condition stands in the query.
QUEUED: Final = JOBS.c.state == literal_column("'QUEUED'")
IN_LINE: Final = (JOBS.c.rank, JOBS.c.create_ns, JOBS.c.uid)


def _explain() -> ColumnElement[Any]:
    """The stored explanation, else that of a job behind the front, else NULL."""
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
    stored = JOBS.c.explanation
    is_behind = and_(QUEUED, stored.is_(None), tuple_(*IN_LINE) > last_of_front)
    return case((is_behind, literal(codec.EXPLANATION.encode(BEHIND_FRONT))), else_=stored)


#: In place of the column ``explanation`` in whatever is read for a user.
EXPLANATION: Final = _explain().label("explanation")
