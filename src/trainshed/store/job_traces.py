"""Reads the events that end a phase of a job, in the order of their commits, from a mark on.

The mark is stored after the spans of these events were sent, so that a server that is killed
leaves none out.  In PostgreSQL several servers write, and an event that was numbered first may be
committed last: there, an event counts only after the longest time of a write.
"""

import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, Connection, Text, bindparam, func, select, update

from trainshed.store.bulk import given
from trainshed.store.database import Database
from trainshed.store.records.steps import StoredEvent
from trainshed.store.story import stored_event
from trainshed.store.tables import EVENTS, MARKS, TRIALS
from trainshed.store.upsert import insert
from trainshed.store.writer import Transaction

#: The name of the mark: the ``seq`` of the last event whose spans were sent.
_SENT: Final = "traces"
#: The name of the mark with the random number of this database.
_INSTALLATION: Final = "installation"
_NUMBER_BITS: Final = 62
#: Nanoseconds for which a write of another server may stay uncommitted (``store.database``: 10 s).
_SETTLED_NS: Final = 15_000_000_000

_VALUE = select(MARKS.c.value).where(MARKS.c.name == bindparam("of_name"))
_NEW = insert(MARKS).on_conflict_do_nothing()
_MOVE = (
    update(MARKS)
    .where(MARKS.c.name == _SENT, MARKS.c.value == bindparam("before"))
    .values(value=bindparam("after", type_=BigInteger))
)
_LAST = select(func.max(EVENTS.c.seq))
_UNSETTLED = select(func.min(EVENTS.c.seq)).where(
    EVENTS.c.seq > bindparam("after"), EVENTS.c.stamp_ns > bindparam("settled_ns")
)
_KINDS = given("kinds", kind=Text)
ENDS_OF_PHASES = (
    select(EVENTS.c.seq, EVENTS.c.uid)
    .where(
        EVENTS.c.seq > bindparam("after"),
        EVENTS.c.seq <= bindparam("until"),
        EVENTS.c.kind.in_(select(_KINDS.c.kind)),
    )
    .order_by(EVENTS.c.seq)
    .limit(bindparam("most"))
)


_WANTED = given("wanted", uid=BigInteger)
EVENTS_OF_JOBS = (
    select(EVENTS)
    .where(EVENTS.c.uid == _WANTED.c.uid)
    .order_by(EVENTS.c.seq)
    .limit(bindparam("most"))
)
STUDIES_OF_JOBS = select(TRIALS.c.job_uid, TRIALS.c.uid).where(TRIALS.c.job_uid == _WANTED.c.uid)
_NUMBERS = given("numbers", number=BigInteger)
JOBS_OF_TRIALS = select(TRIALS.c.number, TRIALS.c.job_uid).where(
    TRIALS.c.uid == bindparam("of_uid"), TRIALS.c.number.in_(select(_NUMBERS.c.number))
)

Events = Sequence[StoredEvent]


class EndedPhases(NamedTuple):
    """The jobs that have ended a phase in a range of events."""

    after: int
    until: int
    """The ``seq`` of the last event of the range."""
    uids: Collection[int]


class StoredJobTraces:
    """Reads and moves the mark of traces."""

    _db: Database
    _installation_number: int | None = None

    def installation_number(self) -> int:
        """Return the random number of this database; the first call of a server may make it."""
        if self._installation_number is None:
            number = secrets.randbits(_NUMBER_BITS)
            made = self._db.write(lambda tx: _make_mark(tx, _INSTALLATION, number))
            self._installation_number = made
        return self._installation_number

    def trace_mark(self) -> int:
        """Return the mark; the first call sets it to the newest event, so that history stays."""
        last = self._db.column(_LAST)[0] or 0
        return self._db.write(lambda tx: _make_mark(tx, _SENT, last))

    def ended_phases(self, after: int, kinds: Collection[str], *, limit: int) -> EndedPhases:
        """Return the jobs with events of these kinds after a ``seq``; reads ``limit`` events.

        After jobs with the newest events were deleted, the range begins at the last event that is
        left, because the database may use their numbers again.
        """

        def read(connection: Connection) -> EndedPhases:
            start = min(after, last := connection.execute(_LAST).scalar() or 0)
            until = _last_settled(connection, start, last, self._db.clock())
            parameters = {"after": start, "until": until, "most": limit}
            parameters["kinds"] = json.dumps([[kind] for kind in kinds])
            rows = connection.execute(ENDS_OF_PHASES, parameters).all()
            until = rows[-1].seq if len(rows) == limit else until
            return EndedPhases(start, until, tuple(dict.fromkeys(row.uid for row in rows)))

        return self._db.read(read)

    def events_of_jobs(self, uids: Collection[int], *, limit: int) -> Mapping[int, Events]:
        """Return the events of these jobs in order, by uid; at most the first ``limit`` of all."""
        wanted = json.dumps([[uid] for uid in uids])
        events: dict[int, list[StoredEvent]] = {uid: [] for uid in uids}
        for row in self._db.rows(EVENTS_OF_JOBS, wanted=wanted, most=limit):
            events[row.uid].append(stored_event(row))
        return events

    def studies_of(self, uids: Collection[int]) -> Mapping[int, int]:
        """Return the uid of the study of each of these jobs that is a trial's."""
        wanted = json.dumps([[uid] for uid in uids])
        return {row.job_uid: row.uid for row in self._db.rows(STUDIES_OF_JOBS, wanted=wanted)}

    def jobs_of_trials(self, uid: int, numbers: Sequence[int]) -> Mapping[int, int]:
        """Return the uids of the jobs of these trials of a study, by number."""
        if not numbers:
            return {}
        wanted = json.dumps([[number] for number in numbers])
        rows = self._db.rows(JOBS_OF_TRIALS, of_uid=uid, numbers=wanted)
        return {row.number: row.job_uid for row in rows}

    def move_trace_mark(self, before: int, after: int) -> bool:
        """Set the mark, if it is still ``before``; return whether it was."""
        return self._db.put(_MOVE, before=before, after=after) == 1


def _make_mark(tx: Transaction, name: str, value: int) -> int:
    """Insert a mark if it is missing; return its value."""
    tx.connection.execute(_NEW, {"name": name, "value": value})
    return int(tx.connection.execute(_VALUE, {"of_name": name}).scalar_one())


def _last_settled(connection: Connection, after: int, last: int, now_ns: int) -> int:
    """Return the last event before which no other can still be committed."""
    if connection.dialect.name == "sqlite":  # it has one writer
        return last
    parameters = {"after": after, "settled_ns": now_ns - _SETTLED_NS}
    unsettled = connection.execute(_UNSETTLED, parameters).scalar()
    return last if unsettled is None else unsettled - 1
