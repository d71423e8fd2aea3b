"""Converts rows of the tables to the records of ``store.records``."""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache, lru_cache
from typing import Any, Final, TypeVar, cast

from sqlalchemy import Row, Select, select

from trainshed.lifecycle.events import Command
from trainshed.model.labels import WISH, wishes
from trainshed.model.resource_names import resource_name
from trainshed.model.resources import JobDemand, Seat
from trainshed.model.restarts import Restarts
from trainshed.model.status import Job, JobState, JobStatus
from trainshed.store import codec
from trainshed.store.front import EXPLANATION
from trainshed.store.names import etag
from trainshed.store.records.jobs import Holding, JobKind, JobRecord, WaitingJob
from trainshed.store.records.steps import StoredCommand
from trainshed.store.tables import ATTEMPTS, JOBS, SPECS
from trainshed.store.times import NS_PER_S

T = TypeVar("T")

#: The cache of demands: thousands of jobs request the same few.
_DEMANDS_MAX = 4096
_NONE: Final = Restarts()

#: The columns of a job; behind the front of the queue the explanation is derived.
JOB_COLUMNS: Final = (*(column for column in JOBS.c if column.name != "explanation"), EXPLANATION)
#: A job with its spec, for ``job_record``.
JOB: Select[Any] = select(*JOB_COLUMNS, SPECS.c.spec).join_from(
    JOBS, SPECS, SPECS.c.uid == JOBS.c.uid
)

WAITING: Select[Any] = select(
    JOBS.c.uid,
    JOBS.c.project,
    JOBS.c.location,
    JOBS.c.kind,
    JOBS.c.job_id,
    JOBS.c.rank,
    JOBS.c.create_ns,
    JOBS.c.demand,
    JOBS.c.running_s_max,
    JOBS.c.version,
    JOBS.c.attempt,
    JOBS.c.labels,
    JOBS.c.ran_ns,
    JOBS.c.refused_ns,
    JOBS.c.refusals,
)

#: Jobs that hold seats or a claim, for ``holding``.
HOLDING: Select[Any] = (
    select(
        JOBS.c.uid,
        JOBS.c.project,
        JOBS.c.location,
        JOBS.c.kind,
        JOBS.c.job_id,
        JOBS.c.display_name,
        JOBS.c.creator,
        JOBS.c.attempt,
        JOBS.c.demand,
        JOBS.c.held_ns,
        JOBS.c.running_s_max,
        (JOBS.c.state == JobState.ENQUEUED.value).label("enqueued"),
        ATTEMPTS.c.seats,
        ATTEMPTS.c.engine,
        ATTEMPTS.c.claim,
    )
    .join(ATTEMPTS, (ATTEMPTS.c.uid == JOBS.c.uid) & (ATTEMPTS.c.attempt == JOBS.c.attempt))
    .where(JOBS.c.held_ns.is_not(None))
)


def job_record(row: Row[Any], now_ns: int) -> JobRecord:
    """Convert a row of ``JOB``; the run time of a running job is counted until ``now_ns``."""
    return JobRecord(
        uid=row.uid,
        kind=JobKind(row.kind),
        job=Job(
            project=row.project,
            location=row.location,
            job_id=row.job_id,
            spec=codec.SPEC.decode(row.spec),
            status=_status(row),
            etag=etag(row.uid, row.version),
            labels=codec.LABELS.decode(row.labels),
            explanation=codec.EXPLANATION.decode(row.explanation) if row.explanation else None,
        ),
        version=row.version,
        attempt=row.attempt,
        creator=row.creator,
        owner=row.owner if row.held_ns is not None else None,
        restarts=restarts(row.restarts),
        ran_s=_run_time_ns(row, now_ns) / NS_PER_S,
        refusals=row.refusals,
    )


def restarts(text: str | None) -> Restarts:
    """Decode a value of the column ``restarts``; None means no restarts."""
    return codec.RESTARTS.decode(text) if text else _NONE


def _run_time_ns(row: Row[Any], now_ns: int) -> int:
    since_ns = row.running_since_ns
    ran_ns: int = row.ran_ns
    return ran_ns if since_ns is None else ran_ns + max(0, now_ns - since_ns)


def _status(row: Row[Any]) -> JobStatus:
    return JobStatus(
        state=JobState(row.state),
        create_time=codec.to_time(row.create_ns),
        start_time=codec.to_time_or_none(row.start_ns),
        end_time=codec.to_time_or_none(row.end_ns),
        update_time=codec.to_time(row.update_ns),
        error=codec.ERROR.decode(row.error) if row.error else None,
    )


def waiting(row: Row[Any]) -> WaitingJob:
    """Convert a row of ``WAITING``."""
    return of_columns(
        WaitingJob,
        row,
        priority=-row.rank,
        create_time=codec.to_time(row.create_ns),
        demand=decode_demand(row.demand),
        name=resource_name(row.kind, row.project, row.location, row.job_id),
        kind=JobKind(row.kind),
        wants=_wants(row.labels),
        ran_s=row.ran_ns / NS_PER_S,
        refused=codec.to_time_or_none(row.refused_ns),
    )


def holding(row: Row[Any]) -> Holding:
    """Convert a row of ``HOLDING``."""
    return of_columns(
        Holding,
        row,
        demand=decode_demand(row.demand),
        seats=_seats(row.seats, row.engine),
        claim=codec.CLAIM.decode(row.claim) if row.claim else None,
        enqueued=bool(row.enqueued),
        since=codec.to_time(row.held_ns),
        name=resource_name(row.kind, row.project, row.location, row.job_id),
        kind=JobKind(row.kind),
    )


def command(row: Row[Any]) -> StoredCommand:
    """Convert a row of ``commands``."""
    stop = codec.STOP.decode(row.stop) if row.stop else None
    return of_columns(StoredCommand, row, kind=Command(row.kind), stop=stop)


def of_columns(kind: type[T], row: Row[Any], /, **values: Any) -> T:
    """Make a ``kind`` from ``values``; other fields are read from columns of the same names."""
    for name in _names(cast("Any", kind), *values):
        values[name] = getattr(row, name)
    return kind(**values)


@cache
def _names(kind: Any, *excluded: str) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name not in excluded)


def _seats(text: str, engine: str) -> tuple[Seat, ...]:
    """Decode seats; seats of older releases name no engine, and get the attempt's."""
    seats = codec.SEATS.decode(text)
    return tuple(seat if seat.engine else replace(seat, engine=engine) for seat in seats)


@lru_cache(_DEMANDS_MAX)
def _wants(labels: str) -> Mapping[str, str]:
    return wishes(codec.LABELS.decode(labels)) if WISH in labels else {}


@lru_cache(_DEMANDS_MAX)
def decode_demand(text: str) -> JobDemand:
    """Decode a value of the column ``demand``."""
    return codec.DEMAND.decode(text)
