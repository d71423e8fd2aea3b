"""Counts jobs that have not ended, for metrics: by project and state, and why they wait.

One scrape reads it, so no query may touch the rows of ended jobs, or all rows of a long queue.
In SQLite the query goes from project to project in the index of states, and counts in this index
alone.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Select, TextClause, bindparam, func, select, text

from trainshed.model.explanation import Reason
from trainshed.model.restarts import Restarts
from trainshed.model.status import JobState
from trainshed.model.trials import TrialState
from trainshed.store import codec
from trainshed.store.database import Database
from trainshed.store.front import FRONT_MAX, IN_LINE, IS_FREE, QUEUED
from trainshed.store.study_rows import open_studies_hint
from trainshed.store.tables import JOBS

_OPEN: Final = [state.value for state in JobState if not state.is_final]
_STATES: Final = ", ".join(f"('{state}')" for state in _OPEN)
_OPEN_TRIALS: Final = ", ".join(f"'{state.value}'" for state in TrialState if not state.is_final)
#: For SQLite: counts of the six states for each project in the index of states.
BY_PROJECT: Final[TextClause] = text(f"""
    WITH RECURSIVE names(project) AS (
        SELECT * FROM (
            SELECT project FROM jobs WHERE deleted_ns IS NULL ORDER BY project LIMIT 1
        ) AS first
        UNION ALL
        SELECT (
            SELECT jobs.project FROM jobs
            WHERE jobs.deleted_ns IS NULL AND jobs.project > names.project
            ORDER BY jobs.project LIMIT 1
        ) FROM names WHERE names.project IS NOT NULL
    ), states(state) AS (VALUES {_STATES})
    SELECT names.project, states.state, (
        SELECT count(*) FROM jobs
        WHERE jobs.deleted_ns IS NULL
            AND jobs.project = names.project AND jobs.state = states.state
    ) AS jobs
    FROM names, states WHERE names.project IS NOT NULL
""")  # noqa: S608 - the states are constants
#: For PostgreSQL, which reads the index of open jobs as fast, whatever it knows of the table.
BY_STATE: Final = (
    select(JOBS.c.project, JOBS.c.state, func.count())
    .where(JOBS.c.end_ns.is_(None), JOBS.c.deleted_ns.is_(None))
    .group_by(JOBS.c.project, JOBS.c.state)
)
#: The beginning of a stored explanation, up to the end of its reason.
_REASON: Final = re.compile(r'"reason":"([A-Z_]+)"')
_BEGIN_CHARS: Final = 34
_BEGIN: Final = func.substr(JOBS.c.explanation, 1, _BEGIN_CHARS).label("begin")
#: Reasons of the jobs that the scheduler considers.
FRONT: Final = select(_BEGIN).where(QUEUED).order_by(*IN_LINE).limit(FRONT_MAX)
#: Enqueued jobs whose reasons are read; the others count with the reason ENGINE_QUEUE.
_ENQUEUED_MAX: Final = 2000
ENQUEUED: Final = (
    select(_BEGIN)
    .where(JOBS.c.held_ns.is_not(None), JOBS.c.state == JobState.ENQUEUED.value)
    .limit(_ENQUEUED_MAX)
)
#: The + "" keeps the database from sorting the queue: open jobs have an index by age.
OLDEST: Final = (
    select(JOBS.c.create_ns)
    .where(JOBS.c.end_ns.is_(None), JOBS.c.state + "" == JobState.QUEUED.value, IS_FREE)
    .order_by(JOBS.c.create_ns)
    .limit(1)
)


NEWEST: Final = (
    select(
        JOBS.c.uid,
        JOBS.c.project,
        JOBS.c.job_id,
        JOBS.c.kind,
        JOBS.c.state,
        JOBS.c.attempt,
        JOBS.c.creator,
        JOBS.c.create_ns,
        JOBS.c.demand,
        JOBS.c.restarts,
    )
    .where(JOBS.c.end_ns.is_(None))
    .order_by(JOBS.c.create_ns.desc(), JOBS.c.uid.desc())
    .limit(bindparam("most"))
)
#: Cached demands: thousands of jobs have the same few.
_DEMANDS_MAX: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenJobCounts:
    """The numbers of jobs that have not ended."""

    by_project: Mapping[tuple[str, str], int]
    """By (project, state), without zeros."""
    waiting: Mapping[Reason, int]
    """Jobs that wait in the server's queue or an engine's, by reason."""
    oldest_wait_s: float | None
    """Seconds since the submission of the oldest job in the server's queue; None: it is empty."""
    studies: Mapping[str, int]
    """Studies that have not ended, by state."""
    trials: Mapping[str, int]
    """The trials of these studies that have not ended, by state."""


class OpenJob(NamedTuple):
    """A job that has not ended, for a page with thousands of them."""

    uid: int
    project: str
    job_id: str
    kind: str
    state: str
    attempt: int
    creator: str
    create_ns: int
    gpus: int
    """The number of GPUs that the job asks for."""
    restarts: Restarts | None
    """None: the job has not restarted."""


class StoredOpenJobCounts:
    """Reads the counts."""

    _db: Database

    def count_open(self) -> OpenJobCounts:
        """Count the jobs that have not ended.  Raises StoreFault."""
        return self._db.read(lambda connection: _read(connection, self._db.clock()))

    def newest_open(self, *, limit: int) -> Sequence[OpenJob]:
        """Return the newest jobs that have not ended.  Raises StoreFault."""

        def fetch(connection: Connection) -> Sequence[OpenJob]:
            # the driver's own rows: those of SQLAlchemy take three times as long
            cursor: Any = connection.execute(NEWEST, {"most": limit}).cursor
            return [_open_job(row) for row in cursor.fetchall()]

        return self._db.read(fetch)


def _read(connection: Connection, now_ns: int) -> OpenJobCounts:
    is_sqlite = connection.dialect.name == "sqlite"
    rows = connection.execute(BY_PROJECT if is_sqlite else BY_STATE).all()
    by_project = {(project, state): count for project, state, count in rows if count}
    totals = Counter[str]()
    for (_, state), count in by_project.items():
        totals[state] += count
    oldest_ns = connection.execute(OLDEST).scalar() if totals[JobState.QUEUED.value] else None
    return OpenJobCounts(
        by_project=by_project,
        waiting=_read_reasons(connection, totals),
        oldest_wait_s=None if oldest_ns is None else max(0.0, (now_ns - oldest_ns) / 1e9),
        studies=(studies := _count_studies(connection)),
        trials=_count_trials(connection) if studies else {},
    )


def _open_job(row: Sequence[Any]) -> OpenJob:
    *columns, demand, restarts = row
    of_job = codec.RESTARTS.decode(restarts) if restarts else None
    return OpenJob._make([*columns, _count_gpus(demand), of_job])


@lru_cache(_DEMANDS_MAX)
def _count_gpus(demand: str) -> int:
    groups = codec.DEMAND.decode(demand).groups
    return sum(group.count * group.each.gpu_count for group in groups)


def _count_studies(connection: Connection) -> Mapping[str, int]:
    """Count open studies by state."""
    query = f"""
        SELECT state, count(*) FROM jobs {open_studies_hint(connection.dialect.name)}
        WHERE is_study = 1 AND end_ns IS NULL GROUP BY state
    """  # noqa: S608 - the hint is a constant
    return dict(map(tuple, connection.execute(text(query))))


def _count_trials(connection: Connection) -> Mapping[str, int]:
    """Count the trials of open studies by state, without those that have ended."""
    query = f"""
        SELECT trials.state, count(*) FROM jobs {open_studies_hint(connection.dialect.name)}
        JOIN trials ON trials.uid = jobs.uid
        WHERE jobs.is_study = 1 AND jobs.end_ns IS NULL AND trials.state IN ({_OPEN_TRIALS})
        GROUP BY trials.state
    """  # noqa: S608 - the hint and the states are constants
    return dict(map(tuple, connection.execute(text(query))))


def _read_reasons(connection: Connection, totals: Mapping[str, int]) -> Mapping[Reason, int]:
    """Count the waiting jobs by reason; jobs behind the front of the queue wait behind others."""
    queued, enqueued = totals[JobState.QUEUED.value], totals[JobState.ENQUEUED.value]
    front = _count_reasons(connection, FRONT, Reason.NOT_LOOKED_AT) if queued else {}
    engines = _count_reasons(connection, ENQUEUED, Reason.ENGINE_QUEUE) if enqueued else {}
    counts = Counter[Reason](front)
    counts.update(engines)
    # the counts were read before the reasons, and jobs may have left meanwhile
    counts[Reason.BEHIND_QUEUE] += max(0, queued - sum(front.values()))
    counts[Reason.ENGINE_QUEUE] += max(0, enqueued - sum(engines.values()))
    return +counts


def _count_reasons(
    connection: Connection, jobs: Select[tuple[str]], default: Reason
) -> Mapping[Reason, int]:
    """Count jobs by the beginnings of their explanations; ``default`` is for those without."""
    rows = jobs.subquery()
    counts = Counter[Reason]()
    for begin, count in connection.execute(
        select(rows.c.begin, func.count()).group_by(rows.c.begin)
    ):
        match = _REASON.search(begin or "")
        counts[Reason(match[1]) if match else default] += count
    return counts
