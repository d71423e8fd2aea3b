"""Reads what a later read is compared with to find changed jobs: a mark of each job.

``explain`` changes the explanation of a job and leaves its version alone, so a mark has both.
Marks of all open jobs are read again and again: they are the driver's own rows, because
SQLAlchemy's rows take three times as long.
"""

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, Connection, Select, bindparam, select

from trainshed.store import codec
from trainshed.store.bulk import given
from trainshed.store.database import Database
from trainshed.store.front import IS_BEHIND
from trainshed.store.tables import JOBS, TRIALS

#: What changes whenever a job's row in a list changes: uid, version, explanation, and whether the
#: job waits behind the front of the queue.
JobMark = tuple[int, int, str | None, bool | None]

_MARK: Final = select(JOBS.c.uid, JOBS.c.version, JOBS.c.explanation, IS_BEHIND)
OPEN_MARKS: Final = _MARK.where(JOBS.c.end_ns.is_(None))
_WATCHED: Final = given("watched", uid=BigInteger)
MARKS_OF: Final = _MARK.where(JOBS.c.uid == _WATCHED.c.uid, JOBS.c.deleted_ns.is_(None))
ENDED_SINCE: Final = (
    select(JOBS.c.uid)
    .where(JOBS.c.end_ns >= bindparam("since_ns"), JOBS.c.deleted_ns.is_(None))
    .order_by(JOBS.c.end_ns.desc(), JOBS.c.uid.desc())
    .limit(bindparam("most"))
)
_STAMPED: Final = given("stamped", uid=BigInteger)
LAST_STAMPS: Final = select(JOBS.c.uid, JOBS.c.last_stamp_ns).where(JOBS.c.uid == _STAMPED.c.uid)
TRIAL_MARKS: Final = (
    select(TRIALS.c.number, TRIALS.c.state, TRIALS.c.mark_attempt, TRIALS.c.mark, JOBS.c.state)
    .select_from(TRIALS.outerjoin(JOBS, JOBS.c.uid == TRIALS.c.job_uid))
    .where(TRIALS.c.uid == bindparam("of_uid"))
)


def changes_row(before: JobMark | None, now: JobMark) -> bool:
    """Return whether a job's row in a list has changed: it has the reason, not its sentence.

    The scheduler writes the sentences of hundreds of waiting jobs again when one job starts.
    """
    if before is None or before[1] != now[1] or before[3] != now[3]:
        return True
    return _reason(before[2]) != _reason(now[2])


def _reason(explanation: str | None) -> str | None:
    return codec.reason_of(explanation) if explanation else None


class TrialMark(NamedTuple):
    """What changes whenever a trial of a study, its job or its reports change."""

    state: str
    reports: tuple[int, int]
    """The attempt and the number of the newest report."""
    job_state: str | None
    """None if the trial's job was deleted."""


class StoredMarks:
    """Reads marks."""

    _db: Database

    def open_marks(self) -> Mapping[int, JobMark]:
        """Return a mark of each job that has not ended, by uid."""
        return {mark[0]: mark for mark in self._driver_rows(OPEN_MARKS)}

    def marks_of(self, uids: Collection[int]) -> Mapping[int, JobMark]:
        """Return the marks of these jobs, also of ended ones; leaves out deleted jobs."""
        marks = self._driver_rows(MARKS_OF, watched=json.dumps([[uid] for uid in uids]))
        return {mark[0]: mark for mark in marks}

    def ended_since(self, since: datetime, *, limit: int) -> frozenset[int]:
        """Return the uids of at most ``limit`` jobs that ended at a time or later, the newest."""
        parameters = {"since_ns": codec.to_ns(since), "most": limit}
        return frozenset(row[0] for row in self._db.rows(ENDED_SINCE, **parameters))

    def last_stamps(self, uids: Collection[int]) -> Mapping[int, int]:
        """Return the stamps in ns of the newest events of these jobs."""
        rows = self._db.rows(LAST_STAMPS, stamped=json.dumps([[uid] for uid in uids]))
        return {row[0]: row[1] for row in rows}

    def trial_marks(self, uid: int) -> Mapping[int, TrialMark]:
        """Return a mark of each trial of a study, by number."""
        rows = self._db.rows(TRIAL_MARKS, of_uid=uid)
        return {
            number: TrialMark(state, (attempt, report), job_state)
            for number, state, attempt, report, job_state in rows
        }

    def _driver_rows(self, query: Select[Any], **parameters: str) -> Collection[JobMark]:
        def fetch(connection: Connection) -> Collection[JobMark]:
            cursor: Any = connection.execute(query, parameters).cursor
            marks: Collection[JobMark] = cursor.fetchall()
            return marks

        return self._db.read(fetch)
