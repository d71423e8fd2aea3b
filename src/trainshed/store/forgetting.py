"""Jobs that ended long ago, and how all that is known of them is dropped.

A job whose stop nobody has performed yet is not forgotten, however old it is: its command is all
that is left to say that something of it may still live.  The job of a trial goes by its own age:
if it goes before its study, the study still knows the trial.
"""

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import BigInteger, bindparam, delete, exists, select

from trainshed.store import codec
from trainshed.store.bulk import given
from trainshed.store.database import Database
from trainshed.store.study_rows import hide_trials
from trainshed.store.tables import (
    ATTEMPTS,
    COMMANDS,
    EVENTS,
    JOBS,
    LABELS,
    PIPELINES,
    REPLICAS,
    REPORTS,
    RETRY_KEYS,
    SPECS,
    TRIALS,
)
from trainshed.store.writer import Transaction

_IS_OVER = JOBS.c.end_ns.is_not(None) & ~exists().where(COMMANDS.c.uid == JOBS.c.uid)
EXPIRED = (
    select(JOBS.c.uid)
    .where(_IS_OVER, JOBS.c.end_ns < bindparam("before_ns"))
    .order_by(JOBS.c.end_ns, JOBS.c.uid)
    .limit(bindparam("most"))
)
_GONE = given("gone", uid=BigInteger)
_UIDS = select(_GONE.c.uid)
#: Locked until the commit: nobody may add a word to the story of a job that is being dropped.
OVER = select(JOBS.c.uid).where(_IS_OVER, JOBS.c.uid.in_(_UIDS)).with_for_update(of=JOBS)
_THEIR_PIPELINES = select(PIPELINES.c.uid).where(PIPELINES.c.child_uid.in_(_UIDS))
#: In the order in which rows refer to each other.
DROPS: Final = (
    delete(LABELS).where(LABELS.c.uid.in_(_THEIR_PIPELINES)),
    delete(PIPELINES).where(PIPELINES.c.child_uid.in_(_UIDS)),
    *(
        delete(table).where(table.c.uid.in_(_UIDS))
        for table in (
            LABELS,
            SPECS,
            ATTEMPTS,
            REPLICAS,
            EVENTS,
            RETRY_KEYS,
            REPORTS,
            TRIALS,
            JOBS,
        )
    ),
)


class Forgetting:
    """The end of what the store keeps of a job."""

    _db: Database

    def expired(self, *, ended_before: datetime, limit: int) -> Sequence[int]:
        """Jobs that ended before a time, deleted ones too, oldest first: their uids.

        Left out are those with a command that is still to be performed.
        """
        known = {"before_ns": codec.to_ns(ended_before), "most": limit}
        return self._db.read(lambda c: c.execute(EXPIRED, known).scalars().all())

    def forget(self, uids: Collection[int]) -> None:
        """Drop final jobs with all that is known of them, and the pipelines around them.

        Left alone are others, and those with a command that is still to be performed.
        """
        if not uids:
            return
        known = {"gone": json.dumps([[uid] for uid in uids])}

        def drop(tx: Transaction) -> None:
            over = tx.connection.execute(OVER, known).scalars().all()
            gone = {"gone": json.dumps([[uid] for uid in over])}
            if over:
                hide_trials(tx, over)
            for statement in DROPS if over else ():
                tx.connection.execute(statement, gone)

        self._db.write(drop)
