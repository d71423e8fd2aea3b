"""All that a database says, read at one moment for whoever checks it against the promises.

Nothing is made, brought up to date or written, whoever uses the database meanwhile.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Connection, func, select

from trainshed.model.resources import Seat
from trainshed.model.trials import TrialState
from trainshed.store import codec
from trainshed.store.fleet import ALL, PLACES, node_row
from trainshed.store.looking import damage_of, look
from trainshed.store.records import (
    Holding,
    JobRecord,
    NodeRow,
    ReplicaRow,
    StoredCommand,
    StoredEvent,
)
from trainshed.store.rows import HOLDING, JOB, command, holding, job_record, of_columns
from trainshed.store.story import replica_row, stored_event
from trainshed.store.tables import ATTEMPTS, COMMANDS, EVENTS, JOBS, LEASES, REPLICAS, TRIALS

_JOBS: Final = JOB.order_by(JOBS.c.uid)
_REPLICAS: Final = select(REPLICAS).order_by(
    REPLICAS.c.uid, REPLICAS.c.attempt, REPLICAS.c.role, REPLICAS.c.number
)
LAST_EVENTS: Final = select(EVENTS).where(
    EVENTS.c.seq.in_(select(func.max(EVENTS.c.seq)).group_by(EVENTS.c.uid))
)
_TRIALS: Final = select(TRIALS.c.uid, TRIALS.c.number, TRIALS.c.state, TRIALS.c.job_uid).order_by(
    TRIALS.c.uid, TRIALS.c.number
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedTrial:
    """A trial as its study's rows have it; its job may be gone."""

    study_uid: int
    number: int
    state: TrialState
    job_uid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The rows as they were at one moment; pairs are (uid, attempt)."""

    jobs: Sequence[JobRecord]
    """All jobs, deleted ones too, the oldest first."""
    held: Mapping[int, Holding]
    """What holds places, by uid."""
    commands: Sequence[StoredCommand]
    """What is still to be performed, in the order in which it was given."""
    attempts: Mapping[tuple[int, int], tuple[Seat, ...]]
    replicas: Mapping[tuple[int, int], Sequence[ReplicaRow]]
    trials: Sequence[AuditedTrial]
    """Those of all studies, by study and number."""
    nodes: Sequence[NodeRow]
    last_events: Mapping[int, StoredEvent]
    """The newest sentence of each job's story, by uid."""
    leases: Mapping[str, tuple[str, int]]
    """(holder, until when in ns) by ``server:NAME`` and ``scheduler``."""
    damage: Sequence[str]
    """What the database itself finds wrong with its pages and references; SQLite only."""


def rows(url: str, clock: Callable[[], int] = time.time_ns) -> Audit:
    """Read the database of a SQLAlchemy URL; ``clock`` says up to when running jobs have run.

    Raises StoreFault for one that cannot be read, holds no tables, or those of another release.
    """
    return look(url, lambda connection: _audit(connection, clock()))


def _audit(connection: Connection, now_ns: int) -> Audit:
    def every(query: Any) -> Sequence[Any]:
        return connection.execute(query).all()

    places = {row.node: row.places for row in every(PLACES)}
    return Audit(
        jobs=[job_record(row, now_ns) for row in every(_JOBS)],
        held={row.uid: holding(row) for row in every(HOLDING)},
        commands=[command(row) for row in every(select(COMMANDS).order_by(COMMANDS.c.seq))],
        attempts={
            (row.uid, row.attempt): codec.SEATS.decode(row.seats) for row in every(select(ATTEMPTS))
        },
        replicas={
            key: [replica_row(row) for row in group]
            for key, group in groupby(every(_REPLICAS), lambda row: (row.uid, row.attempt))
        },
        trials=[
            of_columns(AuditedTrial, row, study_uid=row.uid, state=TrialState(row.state))
            for row in every(_TRIALS)
        ],
        nodes=[node_row(row, places.get(row.name, 0)) for row in every(ALL)],
        last_events={row.uid: stored_event(row) for row in every(LAST_EVENTS)},
        leases={row.name: (row.holder, row.until_ns) for row in every(select(LEASES))},
        damage=damage_of(connection),
    )
