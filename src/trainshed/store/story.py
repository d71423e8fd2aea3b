"""Reads and writes the story of jobs: their events, and the states of replicas."""

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Row,
    Text,
    bindparam,
    case,
    func,
    literal,
    select,
    update,
)

from trainshed.store import codec
from trainshed.store.bulk import add_rows, given
from trainshed.store.database import Database
from trainshed.store.records.steps import NewEvent, ReplicaRow, StoredEvent
from trainshed.store.rows import of_columns
from trainshed.store.tables import EVENTS, JOBS, REPLICAS
from trainshed.store.writer import Transaction


def next_stamp(count: ColumnElement[int]) -> ColumnElement[int]:
    """Return the stamp of the last of ``count`` new events, all later than earlier events."""
    now_ns: BindParameter[int] = bindparam("now_ns", type_=BigInteger)
    first = case((JOBS.c.last_stamp_ns >= now_ns, JOBS.c.last_stamp_ns + 1), else_=now_ns)
    return first + count - 1


_ADD_EVENT = (
    update(JOBS)
    .where(JOBS.c.uid == bindparam("of_uid"))
    .values(last_stamp_ns=next_stamp(literal(1)))
    .returning(JOBS.c.attempt, JOBS.c.last_stamp_ns)
)
_OF_JOBS = given("wanted", uid=BigInteger)
ADD_EVENTS = (
    update(JOBS)
    .where(JOBS.c.uid.in_(select(_OF_JOBS.c.uid)))
    .values(last_stamp_ns=next_stamp(literal(1)))
    .returning(JOBS.c.uid, JOBS.c.attempt, JOBS.c.last_stamp_ns)
)
_LOCK_JOBS = (
    select(JOBS.c.uid)
    .where(JOBS.c.uid.in_(select(_OF_JOBS.c.uid)))
    .order_by(JOBS.c.uid)
    .with_for_update(of=JOBS)
)
HAVING_EVENT = select(EVENTS.c.uid).where(
    EVENTS.c.uid.in_(select(_OF_JOBS.c.uid)), EVENTS.c.kind == bindparam("of_kind")
)
EVENTS_OF_JOB = (
    select(EVENTS)
    .where(EVENTS.c.uid == bindparam("of_uid"), EVENTS.c.seq > bindparam("after"))
    .order_by(EVENTS.c.seq)
    .limit(bindparam("most"))
)
EVENTS_BEFORE = (
    select(EVENTS)
    .where(
        EVENTS.c.uid == bindparam("of_uid"),
        EVENTS.c.seq < bindparam("before"),
        EVENTS.c.stamp_ns <= bindparam("until_ns"),
    )
    .order_by(EVENTS.c.seq.desc())
    .limit(bindparam("most"))
)
#: Larger than each ``seq`` and each stamp.
_HIGHEST: Final = (1 << 63) - 1
EVENTS_OF_KIND = (
    select(EVENTS)
    .where(EVENTS.c.uid == bindparam("of_uid"), EVENTS.c.kind == bindparam("of_kind"))
    .order_by(EVENTS.c.seq.desc())
    .limit(bindparam("most"))
)
_KINDS = given("kinds", kind=Text)
_LAST = (
    select(func.max(EVENTS.c.seq))
    .where(EVENTS.c.uid == bindparam("of_uid"), EVENTS.c.kind.in_(select(_KINDS.c.kind)))
    .group_by(EVENTS.c.kind)
)
#: The newest message of a job's events of each requested kind.
LAST_OF_KINDS = select(EVENTS.c.kind, EVENTS.c.message).where(EVENTS.c.seq.in_(_LAST))
#: The events of these kinds of the attempts that hold nodes or are in an engine's queue.
HELD_EVENTS = (
    select(EVENTS)
    .join(JOBS, (JOBS.c.uid == EVENTS.c.uid) & (JOBS.c.attempt == EVENTS.c.attempt))
    .where(
        EVENTS.c.uid.in_(select(JOBS.c.uid).where(JOBS.c.held_ns.is_not(None))),
        EVENTS.c.kind.in_(select(_KINDS.c.kind)),
    )
)
_REPLICAS = (
    select(REPLICAS)
    .where(
        REPLICAS.c.uid == bindparam("of_uid"),
        REPLICAS.c.attempt
        == func.coalesce(
            bindparam("of_attempt"),
            select(JOBS.c.attempt).where(JOBS.c.uid == bindparam("of_uid")).scalar_subquery(),
        ),
    )
    .order_by(REPLICAS.c.role, REPLICAS.c.number)
)


def event_rows(
    uid: int, attempt: int, last_stamp_ns: int, events: Sequence[NewEvent]
) -> Sequence[dict[str, Any]]:
    """Return the rows of new events; the last event gets ``last_stamp_ns``."""
    return [
        {
            "uid": uid,
            "attempt": attempt,
            "stamp_ns": stamp_ns,
            "kind": codec.plain(event.kind),
            "message": codec.plain(event.message),
            "data": json.dumps(dict(event.data), default=str),
        }
        for stamp_ns, event in enumerate(events, last_stamp_ns - len(events) + 1)
    ]


def stored_event(row: Row[Any]) -> StoredEvent:
    """Convert a row of ``events``."""
    return of_columns(StoredEvent, row, data=codec.DATA.decode(row.data))


def replica_row(row: Row[Any]) -> ReplicaRow:
    """Convert a row of ``replicas``."""
    return of_columns(ReplicaRow, row, index=row.number)


def add_event(tx: Transaction, uid: int, event: NewEvent) -> None:
    """Add an event in the transaction of a larger write.  Raises KeyError without the job."""
    row = tx.connection.execute(_ADD_EVENT, {"of_uid": uid, "now_ns": tx.now_ns}).one_or_none()
    if row is None:
        raise KeyError(uid)
    add_rows(tx, EVENTS, event_rows(uid, row.attempt, row.last_stamp_ns, [event]))


def lock_jobs_having(tx: Transaction, kind: str, uids: Collection[int]) -> Collection[int]:
    """Lock some jobs until the commit, and return those that have an event of one kind.

    Two statements: that which waits for the other server does not see the event that it added.
    SQLite has one writer at a time.
    """
    wanted = json.dumps([[uid] for uid in uids])
    if tx.connection.dialect.name == "postgresql":
        tx.connection.execute(_LOCK_JOBS, {"wanted": wanted}).close()
    having = tx.connection.execute(HAVING_EVENT, {"wanted": wanted, "of_kind": kind})
    return {*having.scalars()}


def add_events(tx: Transaction, events: Mapping[int, NewEvent]) -> None:
    """Add an event to each of some jobs, by uid, in the transaction of a larger write.

    Jobs that were deleted get none.
    """
    if not events:
        return
    wanted = json.dumps([[uid] for uid in events])
    jobs = tx.connection.execute(ADD_EVENTS, {"wanted": wanted, "now_ns": tx.now_ns}).all()
    rows = [event_rows(job.uid, job.attempt, job.last_stamp_ns, [events[job.uid]]) for job in jobs]
    add_rows(tx, EVENTS, list(chain.from_iterable(rows)))


class Story:
    _db: Database

    def add_event(self, uid: int, event: NewEvent) -> None:
        """Add an event to a job without changing its state.  Raises KeyError without the job."""
        self._db.write(lambda tx: add_event(tx, uid, event))

    def events(self, uid: int, *, after: int = 0, limit: int = 1000) -> Sequence[StoredEvent]:
        """Return at most ``limit`` events of a job in order, those with a seq above ``after``."""
        rows = self._db.rows(EVENTS_OF_JOB, of_uid=uid, after=after, most=limit)
        return [stored_event(row) for row in rows]

    def events_before(
        self, uid: int, *, before: int | None = None, until_ns: int | None = None, limit: int
    ) -> Sequence[StoredEvent]:
        """Return at most ``limit`` events of a job, the newest first.

        ``before`` leaves out those from this seq on, ``until_ns`` those with a later stamp.  The
        stamps of a job's events ascend with their seq.
        """
        key = {"before": before or _HIGHEST, "until_ns": _HIGHEST if until_ns is None else until_ns}
        rows = self._db.rows(EVENTS_BEFORE, of_uid=uid, **key, most=limit)
        return [stored_event(row) for row in rows]

    def events_of_kind(self, uid: int, kind: str, *, limit: int) -> Sequence[StoredEvent]:
        """Return at most ``limit`` events of one kind of a job, the newest first."""
        rows = self._db.rows(EVENTS_OF_KIND, of_uid=uid, of_kind=kind, most=limit)
        return [stored_event(row) for row in rows]

    def last_messages(self, uid: int, kinds: Sequence[str]) -> Mapping[str, str]:
        """Return the message of a job's newest event of each kind; leaves out kinds without one."""
        kind_rows = json.dumps([[kind] for kind in kinds])
        rows = self._db.rows(LAST_OF_KINDS, of_uid=uid, kinds=kind_rows)
        return {row.kind: row.message for row in rows}

    def held_events(self, kinds: Sequence[str]) -> Sequence[StoredEvent]:
        """Return the events of these kinds of all attempts that hold places, oldest first."""
        kind_rows = json.dumps([[kind] for kind in kinds])
        events = map(stored_event, self._db.rows(HELD_EVENTS, kinds=kind_rows))
        return sorted(events, key=lambda event: event.seq)

    def replicas(self, uid: int, attempt: int | None = None) -> Sequence[ReplicaRow]:
        """Return the replicas of an attempt, by default of the newest attempt."""
        rows = self._db.rows(_REPLICAS, of_uid=uid, of_attempt=attempt)
        return [replica_row(row) for row in rows]
