"""Lists jobs of all kinds as short rows, the newest first, in pages.

A training pipeline and its custom job are one row, with the name of the pipeline.  A study is one
row; the jobs of its trials are listed only if the query has the kind ``TRIAL``.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Row,
    Select,
    Text,
    and_,
    case,
    cast,
    desc,
    exists,
    func,
    or_,
    select,
    tuple_,
)

from trainshed.model.resource_names import PIPELINES as PIPELINES_WORD
from trainshed.model.resource_names import resource_name
from trainshed.model.restarts import Cause
from trainshed.model.status import FINAL, JobState
from trainshed.store import codec
from trainshed.store.bulk import given
from trainshed.store.database import Database
from trainshed.store.front import EXPLANATION
from trainshed.store.listed_jobs import JobListQuery, JobListRow, ListedKind
from trainshed.store.records.jobs import JobKind
from trainshed.store.rows import restarts
from trainshed.store.tables import JOBS, LABELS, PIPELINES, PROJECTS, REPLICAS, TOKENS, TRIALS

#: Cached demands: thousands of jobs have the same few.
_DEMANDS_MAX: Final = 4096

#: Calling an enum with a value is slow, and a page has thousands of values.
_STATES: Final = {state.value: state for state in JobState}
_KINDS: Final = {kind.value: kind for kind in ListedKind}
#: Stands before a character that LIKE would read as a wildcard.
_ESCAPE: Final = "/"
#: The first node and the number of nodes of a job without nodes.
_NO_NODES: Final = ("", 0)

#: The most projects of a list; a project that was only named in a call is not one of them.
PROJECTS_MAX: Final = 5000
_WAITS: Final = [state.value for state in JobState if state.waits]
_KIND: Final = case(
    (TRIALS.c.uid.is_not(None), ListedKind.TRIAL.value),
    (PIPELINES.c.uid.is_not(None), ListedKind.TRAINING_PIPELINE.value),
    (JOBS.c.kind == JobKind.TRIAL.value, ListedKind.TRIAL.value),
    (JOBS.c.is_study == 1, ListedKind.TUNING_JOB.value),
    (JOBS.c.kind == JobKind.ML_JOB.value, ListedKind.AI_PLATFORM_JOB.value),
    else_=ListedKind.CUSTOM_JOB.value,
)
_NAME: Final = func.coalesce(PIPELINES.c.display_name, JOBS.c.display_name)
_FROM: Final = JOBS.outerjoin(PIPELINES, PIPELINES.c.child_uid == JOBS.c.uid).outerjoin(
    TRIALS, TRIALS.c.job_uid == JOBS.c.uid
)
_ROWS: Final = select(
    JOBS.c.uid,
    JOBS.c.attempt,
    JOBS.c.project,
    JOBS.c.location,
    JOBS.c.kind,
    JOBS.c.job_id,
    PIPELINES.c.uid.label("pipeline_uid"),
    _NAME.label("shown_name"),
    _KIND.label("listed_kind"),
    JOBS.c.state,
    case((JOBS.c.state.in_(_WAITS), EXPLANATION)).label("why"),
    JOBS.c.restarts,
    JOBS.c.demand,
    JOBS.c.creator,
    JOBS.c.create_ns,
    JOBS.c.start_ns,
    JOBS.c.end_ns,
).select_from(_FROM)

_PLACED = given("placed", uid=BigInteger, attempt=Integer)
#: For each job, the first and the number of the known nodes of its newest attempt.
NODES: Final = (
    select(
        REPLICAS.c.uid,
        func.min(REPLICAS.c.node).label("first"),
        func.count(REPLICAS.c.node.distinct()).label("count"),
    )
    .join(
        _PLACED,
        and_(REPLICAS.c.uid == _PLACED.c.uid, REPLICAS.c.attempt == _PLACED.c.attempt),
    )
    .where(REPLICAS.c.node != "")
    .group_by(REPLICAS.c.uid)
)


class StoredJobRows:
    """The list of jobs of all kinds."""

    _db: Database

    def job_rows(self, query: JobListQuery) -> Sequence[JobListRow]:
        """Return at most ``page_size`` rows, the newest first."""
        return self._with_nodes(self._db.rows(page_of(query)))

    def job_rows_of(self, uids: Collection[int]) -> Sequence[JobListRow]:
        """Return the rows of these jobs, in no order; leaves out deleted jobs, and trials."""
        wanted = json.dumps([[uid] for uid in uids])
        return self._with_nodes(self._db.rows(ROWS_OF, wanted=wanted))

    def open_states(self) -> Mapping[int, tuple[str, str]]:
        """Return the (project, state) of each job that has not ended, by uid; without trials."""
        return {row.uid: (row.project, row.state) for row in self._db.rows(OPEN_STATES)}

    def open_counts(self, project: str | None) -> Mapping[str, int]:
        """Return the number of listed jobs that have not ended, by state.

        None in ``project`` means all projects.
        """
        rows = self._db.rows(counts_of(project))
        return {row[0]: row[1] for row in rows}

    def open_counts_by_project(self) -> Mapping[str, Mapping[str, int]]:
        """Return the number of listed jobs that have not ended, by project and state."""
        counts: dict[str, dict[str, int]] = {}
        for project, state, count in self._db.rows(_COUNTS_BY_PROJECT):
            counts.setdefault(project, {})[state] = count
        return counts

    def projects_in_use(self) -> Sequence[str]:
        """Return the ids of the projects that have jobs or tokens, at most ``PROJECTS_MAX``."""
        return [row.id for row in self._db.rows(_PROJECTS_IN_USE)]

    def _with_nodes(self, rows: Sequence[Row[Any]]) -> Sequence[JobListRow]:
        placed = json.dumps([[row.uid, row.attempt] for row in rows if row.attempt])
        nodes = {uid: node for uid, *node in self._db.rows(NODES, placed=placed)}
        return [_list_row(row, nodes.get(row.uid, _NO_NODES)) for row in rows]


def page_of(query: JobListQuery) -> Select[Any]:
    """Return the statement that reads one page."""
    age = (JOBS.c.create_ns, JOBS.c.uid)
    return _ROWS.where(*_conditions(query)).order_by(*map(desc, age)).limit(query.page_size)


def counts_of(project: str | None) -> Select[Any]:
    """Return the statement that counts jobs that have not ended, by state."""
    open_jobs = select(JOBS.c.state, func.count()).select_from(_FROM)
    scope = JobListQuery(project=project, is_open=True)
    return open_jobs.where(*_conditions(scope)).group_by(JOBS.c.state)


def _conditions(query: JobListQuery) -> Iterator[ColumnElement[bool]]:
    """Yield the SQL conditions of a query."""
    yield JOBS.c.deleted_ns.is_(None)
    are_open = query.is_open or (bool(query.states) and not query.states & FINAL)
    if are_open:
        yield JOBS.c.end_ns.is_(None)
    if query.project is not None:
        # for open jobs: + "" makes the database use the index of open jobs, not that of the project
        column = JOBS.c.project + "" if are_open else JOBS.c.project
        yield column == codec.plain(query.project)
    if query.states:
        # + "" keeps the database from using the index of states, which is not sorted by age
        yield (JOBS.c.state + "").in_(sorted(state.value for state in query.states))
    kinds = query.kinds or frozenset(ListedKind) - {ListedKind.TRIAL}
    yield _KIND.in_(sorted(kind.value for kind in kinds))
    if query.creator:
        yield JOBS.c.creator == codec.plain(query.creator)
    if query.label is not None:
        yield _has_label(*query.label)
    if query.text:
        yield _has_text(codec.plain(query.text))
    if query.since is not None:
        yield JOBS.c.create_ns >= codec.to_ns(query.since)
    if query.after is not None:
        yield tuple_(JOBS.c.create_ns, JOBS.c.uid) < tuple_(*query.after)


def _has_label(key: str, value: str | None) -> ColumnElement[bool]:
    label = and_(LABELS.c.uid == JOBS.c.uid, LABELS.c.key == codec.plain(key))
    return exists().where(label, *([] if value is None else [LABELS.c.value == codec.plain(value)]))


def _has_text(text: str) -> ColumnElement[bool]:
    """Return the condition that a name or id contains the text; ignores case, at least in ASCII."""
    for mark in f"{_ESCAPE}%_":
        text = text.replace(mark, f"{_ESCAPE}{mark}")
    pattern = func.lower(f"%{text}%")
    columns = (_NAME, JOBS.c.job_id, cast(PIPELINES.c.uid, Text))
    return or_(*(func.lower(column).like(pattern, escape=_ESCAPE) for column in columns))


_WANTED: Final = given("wanted", uid=BigInteger)
ROWS_OF: Final = _ROWS.where(JOBS.c.uid == _WANTED.c.uid, *_conditions(JobListQuery(project=None)))


def _list_row(row: Row[Any], node: Sequence[Any]) -> JobListRow:
    """Convert a row of ``_ROWS``; ``node`` is (first node, number of nodes)."""
    columns: list[Any] = list(row)
    first_node, node_count = node
    uid, attempt, project, location, kind, job_id, pipeline_uid, name, *rest = columns
    listed_kind, state, why, restart_counts, demand, creator, created, started, ended = rest
    gpus, replicas = _decode_demand(demand)
    if pipeline_uid is not None:
        kind, job_id = PIPELINES_WORD, str(pipeline_uid)
    return JobListRow(
        uid,
        resource_name(kind, project, location, job_id),
        name or job_id,
        project,
        _KINDS[listed_kind],
        _STATES[state],
        codec.reason_of(why) if why else None,
        attempt,
        _restart_count(restart_counts) if restart_counts else 0,
        gpus,
        replicas,
        first_node,
        node_count,
        creator,
        created,
        started,
        ended,
    )


def _restart_count(text: str) -> int:
    counts = restarts(text)
    return sum(counts.of(cause) for cause in Cause)


@lru_cache(_DEMANDS_MAX)
def _decode_demand(demand: str) -> tuple[Mapping[str, int], int]:
    decoded = codec.DEMAND.decode(demand)
    return decoded.gpus, decoded.replica_count


_COUNTS_BY_PROJECT: Final = (
    select(JOBS.c.project, JOBS.c.state, func.count())
    .select_from(_FROM)
    .where(*_conditions(JobListQuery(project=None, is_open=True)))
    .group_by(JOBS.c.project, JOBS.c.state)
)
_PROJECTS_IN_USE: Final = (
    select(PROJECTS.c.id)
    .where(
        or_(
            exists().where(JOBS.c.project == PROJECTS.c.id, JOBS.c.deleted_ns.is_(None)),
            exists().where(TOKENS.c.project == PROJECTS.c.id),
        )
    )
    .order_by(PROJECTS.c.id)
    .limit(PROJECTS_MAX)
)
OPEN_STATES: Final = (
    select(JOBS.c.uid, JOBS.c.project, JOBS.c.state)
    .select_from(_FROM)
    .where(*_conditions(JobListQuery(project=None, is_open=True)))
)
