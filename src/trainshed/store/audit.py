"""Reads a whole database at one moment, for the checks of the doctor.

Creates no tables, migrates nothing and writes nothing.  The server may be running.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from trainshed.model.resources import Seat
from trainshed.model.trials import TrialState
from trainshed.store import clock_jumps, codec
from trainshed.store.base import StoreFault
from trainshed.store.clock_jumps import ClockJump
from trainshed.store.database import check_ours, file_of, parsed
from trainshed.store.database_file import connect
from trainshed.store.faults import fault_of, place_of
from trainshed.store.fleet import ALL, PLACES, node_row, places_of
from trainshed.store.migrate import check_version
from trainshed.store.records.jobs import Holding, JobRecord
from trainshed.store.records.nodes import NodeRow
from trainshed.store.records.steps import FENCED, ReplicaRow, StoredCommand, StoredEvent
from trainshed.store.rows import HOLDING, JOB, command, holding, job_record, of_columns
from trainshed.store.story import replica_row, stored_event
from trainshed.store.tables import (
    ATTEMPTS,
    BUCKETS,
    COMMANDS,
    EVENTS,
    JOBS,
    LEASES,
    REPLICAS,
    TRIALS,
)

_JOBS: Final = JOB.order_by(JOBS.c.uid)
_CLAIMS: Final = select(ATTEMPTS.c.uid, ATTEMPTS.c.attempt).where(ATTEMPTS.c.claim.is_not(None))
_REPLICAS: Final = select(REPLICAS).order_by(
    REPLICAS.c.uid, REPLICAS.c.attempt, REPLICAS.c.role, REPLICAS.c.number
)
_FENCED: Final = select(EVENTS.c.uid, EVENTS.c.attempt).where(EVENTS.c.kind == FENCED)
LAST_EVENTS: Final = select(EVENTS).where(
    EVENTS.c.seq.in_(select(func.max(EVENTS.c.seq)).group_by(EVENTS.c.uid))
)
_TRIALS: Final = select(TRIALS.c.uid, TRIALS.c.number, TRIALS.c.state, TRIALS.c.job_uid).order_by(
    TRIALS.c.uid, TRIALS.c.number
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedTrial:
    """A stored trial of a study; its job may be deleted."""

    study_uid: int
    number: int
    state: TrialState
    job_uid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """All rows of the database at one moment; pairs are (uid, attempt)."""

    jobs: Sequence[JobRecord]
    """All jobs, deleted ones too, the oldest first."""
    held: Mapping[int, Holding]
    """Attempts that hold seats or a claim, by uid."""
    commands: Sequence[StoredCommand]
    """Unconfirmed commands, in their order."""
    attempts: Mapping[tuple[int, int], tuple[Seat, ...]]
    claims: frozenset[tuple[int, int]]
    """Attempts whose engine chooses the nodes; ``attempts`` has only the seats that it reported."""
    fenced: frozenset[tuple[int, int]]
    """Fenced attempts: an administrator has confirmed that no process of them runs."""
    replicas: Mapping[tuple[int, int], Sequence[ReplicaRow]]
    trials: Sequence[AuditedTrial]
    """Trials of all studies, by study and number."""
    nodes: Sequence[NodeRow]
    last_events: Mapping[int, StoredEvent]
    """The newest event of each job, by uid."""
    leases: Mapping[str, tuple[str, int]]
    """(holder, expiry in ns) by lease: ``server:NAME`` and ``scheduler``."""
    buckets: Sequence[str]
    """The buckets that belong to a project."""
    jumps: Sequence[ClockJump]
    """Jumps of the clock while no server used the database, in order of time."""
    damage: Sequence[str]
    """Damaged pages and references that SQLite reports; empty for other databases."""


def rows(url: str, clock: Callable[[], int] = time.time_ns) -> Audit:
    """Read the database of a SQLAlchemy URL; ``clock`` returns the current time in ns.

    Raises StoreFault if the database is unreadable, has no tables or is of another release.
    """
    return read_snapshot(url, lambda connection: _audit(connection, clock()))


def _audit(connection: Connection, now_ns: int) -> Audit:
    def fetch(query: Any) -> Sequence[Any]:
        return connection.execute(query).all()

    places = places_of(fetch(PLACES))
    return Audit(
        jobs=[job_record(row, now_ns) for row in fetch(_JOBS)],
        held={row.uid: holding(row) for row in fetch(HOLDING)},
        commands=[command(row) for row in fetch(select(COMMANDS).order_by(COMMANDS.c.seq))],
        attempts={
            (row.uid, row.attempt): codec.SEATS.decode(row.seats) for row in fetch(select(ATTEMPTS))
        },
        claims=frozenset((row.uid, row.attempt) for row in fetch(_CLAIMS)),
        fenced=frozenset((row.uid, row.attempt) for row in fetch(_FENCED)),
        replicas={
            key: [replica_row(row) for row in group]
            for key, group in groupby(fetch(_REPLICAS), lambda row: (row.uid, row.attempt))
        },
        trials=[
            of_columns(AuditedTrial, row, study_uid=row.uid, state=TrialState(row.state))
            for row in fetch(_TRIALS)
        ],
        nodes=[node_row(row, places) for row in fetch(ALL)],
        last_events={row.uid: stored_event(row) for row in fetch(LAST_EVENTS)},
        leases={row.name: (row.holder, row.until_ns) for row in fetch(select(LEASES))},
        buckets=connection.execute(select(BUCKETS.c.name)).scalars().all(),
        jumps=clock_jumps.read(connection),
        damage=damage_of(connection),
    )


T = TypeVar("T")

#: Reads at most, until the file stays unchanged; a server that starts meanwhile changes it.
_TRIES: Final = 5
_BUSY_S: Final = 10.0


def read_snapshot(url: str, read: Callable[[Connection], T]) -> T:
    """Return ``read(connection)``; the connection sees the database as of one moment.

    Raises StoreFault if the database is unreadable or is of another release.
    """
    database_url = parsed(url)
    if database_url.get_backend_name() == "sqlite":
        return _read_file_snapshot(database_url, read)
    one_view = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    engine = create_engine(database_url, poolclass=NullPool, execution_options=one_view)
    return _read(engine, database_url, read)


def damage_of(connection: Connection) -> Sequence[str]:
    """Return the damage that SQLite reports of its file; empty for other databases."""
    if connection.dialect.name != "sqlite":
        return ()
    pages = connection.exec_driver_sql("PRAGMA quick_check").scalars().all()
    strays = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    return [
        *(text for text in pages if text != "ok"),
        *(f"row {row[1]} of {row[0]} belongs to no row of {row[2]}" for row in strays),
    ]


def _read_file_snapshot(url: URL, read: Callable[[Connection], T]) -> T:
    """Read a SQLite file; read again if the file has changed meanwhile."""
    path = file_of(url)
    for _ in range(_TRIES):
        before = _stamp(path)
        at_rest = not _log_of(path).exists()
        result = _read(_reader(path, at_rest=at_rest), url, read)
        if not at_rest or (_stamp(path) == before and not _log_of(path).exists()):
            return result
    raise StoreFault(f"{place_of(url)} changed during every read; try again later")


def _reader(path: Path, *, at_rest: bool) -> Engine:
    """Open a file for reading; ``at_rest`` says that no process uses it and it needs no log."""
    mode = "immutable=1" if at_rest else "mode=ro"

    def begin() -> sqlite3.Connection:
        connection = connect(path, mode, timeout=_BUSY_S, isolation_level=None)
        for pragma in ("query_only=ON", "case_sensitive_like=ON"):
            connection.execute(f"PRAGMA {pragma}").close()
        connection.execute("BEGIN").close()  # all later reads see this state
        return connection

    return create_engine("sqlite://", creator=begin, poolclass=NullPool)


def _read(engine: Engine, url: URL, read: Callable[[Connection], T]) -> T:
    try:
        with engine.connect() as connection:
            check_version(connection)
            return read(connection)
    except (DBAPIError, sqlite3.Error) as error:
        raise fault_of(error, place_of(url)) from error
    finally:
        engine.dispose()


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _stamp(path: Path) -> tuple[Any, ...]:
    """Return values that differ after the file changes.  Raises StoreFault."""
    try:
        check_ours(path)
        stat = os.stat(path)  # noqa: PTH116 - beside open files, by name
    except OSError as error:
        raise StoreFault(f"{path} cannot be read: {error.strerror}") from error
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
