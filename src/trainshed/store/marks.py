"""Reads what a later read is compared with to find changed jobs: a mark of each job.

``explain`` changes the explanation of a job and leaves its version alone, so a mark has both.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, bindparam, select

from trainshed.store.bulk import given
from trainshed.store.database import Database
from trainshed.store.front import EXPLANATION
from trainshed.store.tables import JOBS, TRIALS

_MARK: Final = select(
    JOBS.c.uid, JOBS.c.version, EXPLANATION, JOBS.c.project, JOBS.c.state, TRIALS.c.uid
).select_from(JOBS.outerjoin(TRIALS, TRIALS.c.job_uid == JOBS.c.uid))
OPEN_MARKS: Final = _MARK.where(JOBS.c.end_ns.is_(None))
_WATCHED: Final = given("watched", uid=BigInteger)
MARKS_OF: Final = _MARK.where(JOBS.c.uid == _WATCHED.c.uid, JOBS.c.deleted_ns.is_(None))
_STAMPED: Final = given("stamped", uid=BigInteger)
LAST_STAMPS: Final = select(JOBS.c.uid, JOBS.c.last_stamp_ns).where(JOBS.c.uid == _STAMPED.c.uid)
TRIAL_MARKS: Final = (
    select(TRIALS.c.number, TRIALS.c.state, TRIALS.c.mark_attempt, TRIALS.c.mark, JOBS.c.state)
    .select_from(TRIALS.outerjoin(JOBS, JOBS.c.uid == TRIALS.c.job_uid))
    .where(TRIALS.c.uid == bindparam("of_uid"))
)


class JobMark(NamedTuple):
    """What changes whenever a job's row in a list changes."""

    version: int
    explanation: int
    """A hash of the text, which holds within this process only."""
    project: str
    state: str
    is_trial: bool


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
        return _marks(self._db.rows(OPEN_MARKS))

    def marks_of(self, uids: Collection[int]) -> Mapping[int, JobMark]:
        """Return the marks of these jobs, also of ended ones; leaves out deleted jobs."""
        return _marks(self._db.rows(MARKS_OF, watched=json.dumps([[uid] for uid in uids])))

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


def _marks(rows: Collection[Any]) -> Mapping[int, JobMark]:
    return {
        uid: JobMark(version, hash(explanation), project, state, study is not None)
        for uid, version, explanation, project, state, study in rows
    }
