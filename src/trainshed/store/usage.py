"""Stores the time of attempts by its use, and the seconds of GPUs by their state.

All rows of a job are replaced in one transaction with the mark up to which jobs were read, so that
a killed server loses nothing and counts nothing twice.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    Select,
    bindparam,
    delete,
    func,
    literal,
    select,
    update,
)

from trainshed.model.event_kinds import GOODPUT
from trainshed.model.time_use import HELD_USES
from trainshed.store import codec
from trainshed.store.adding import expanded_of
from trainshed.store.bulk import add_rows, given
from trainshed.store.database import Database
from trainshed.store.job_traces import EVENTS_OF_JOBS
from trainshed.store.machine_usage import DROP_MACHINES, DROP_OLD_MACHINES, machine_values
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.steps import NewEvent, StoredEvent
from trainshed.store.records.usage import (
    AttemptUse,
    ChangedSeats,
    JobUse,
    UsageRow,
    UsageSum,
    UsingJob,
    UsingReplica,
)
from trainshed.store.rows import JOB, decode_demand, job_record
from trainshed.store.story import add_events, lock_jobs_having, stored_event
from trainshed.store.tables import (
    ATTEMPT_USAGE,
    ATTEMPTS,
    GPU_DAYS,
    JOBS,
    MACHINE_USAGE,
    MARKS,
    REPLICAS,
    SPECS,
)
from trainshed.store.upsert import insert
from trainshed.store.usage_days import bounds_of_days, within_days, without_index
from trainshed.store.writer import Transaction

#: The mark of the last job whose time was stored after its seats changed.
USAGE_MARK: Final = "usage"
#: The mark of the time, in ns since 1970, up to which the seconds of GPUs were added.
LOOK_MARK: Final = "gpu_days"
#: The keys that rows are added by.
KEYS: Final = {
    "project": ATTEMPT_USAGE.c.project,
    "user": ATTEMPT_USAGE.c.creator,
    "type": ATTEMPT_USAGE.c.machine_type,
    "day": ATTEMPT_USAGE.c.day,
}
_SECONDS: Final = [ATTEMPT_USAGE.c[f"{use}_s"] for use in HELD_USES]
_SUMS: Final = [
    *(func.sum(column).label(column.name) for column in _SECONDS),
    func.sum(ATTEMPT_USAGE.c.energy_j).label("energy_j"),
]
_SHAPE: Final = (
    ATTEMPT_USAGE.c.machine_type,
    ATTEMPT_USAGE.c.gpus,
    ATTEMPT_USAGE.c.vcpus,
    ATTEMPT_USAGE.c.hour_price,
    ATTEMPT_USAGE.c.currency,
    ATTEMPT_USAGE.c.price_source,
    ATTEMPT_USAGE.c.price_date,
)
_MARK: Final = select(MARKS.c.value).where(MARKS.c.name == USAGE_MARK)
CHANGED: Final = (
    select(JOBS.c.changed, JOBS.c.uid, JOBS.c.held_ns)
    .where(JOBS.c.changed > bindparam("after"))
    .order_by(JOBS.c.changed)
    .limit(bindparam("most"))
)
_WANTED: Final = given("wanted", uid=BigInteger)
JOBS_IN_USE: Final = JOB.add_columns(SPECS.c.expanded).where(JOBS.c.uid.in_(select(_WANTED.c.uid)))
_OF_ATTEMPT: Final = (ATTEMPTS.c.uid == REPLICAS.c.uid) & (ATTEMPTS.c.attempt == REPLICAS.c.attempt)
REPLICAS_IN_USE: Final = (
    select(
        REPLICAS.c.uid,
        REPLICAS.c.attempt,
        REPLICAS.c.role,
        REPLICAS.c.task_name,
        func.coalesce(ATTEMPTS.c.engine, "").label("engine"),
        REPLICAS.c.node,
    )
    .outerjoin(ATTEMPTS, _OF_ATTEMPT)
    .where(REPLICAS.c.uid.in_(select(_WANTED.c.uid)))
    .order_by(REPLICAS.c.uid, REPLICAS.c.attempt, REPLICAS.c.role, REPLICAS.c.number)
)
#: The most events that are read together.
_EVENTS_MAX: Final = 2_000
_OF_JOB: Final = ATTEMPT_USAGE.c.uid == bindparam("of_uid")
DROP: Final = delete(ATTEMPT_USAGE).where(ATTEMPT_USAGE.c.uid.in_(select(_WANTED.c.uid)))
_DROP_OLD: Final = delete(ATTEMPT_USAGE).where(ATTEMPT_USAGE.c.day < bindparam("before_day"))
_DROP_OLD_DAYS: Final = delete(GPU_DAYS).where(GPU_DAYS.c.day < bindparam("before_day"))
_UPDATED: Final = select(func.max(ATTEMPT_USAGE.c.update_ns)).where(_OF_JOB)
_new = insert(MARKS)
_SET_MARK: Final = _new.on_conflict_do_update(
    index_elements=["name"],
    set_={"value": _new.excluded.value},
    where=MARKS.c.value < _new.excluded.value,
)
_LOOK: Final = select(MARKS.c.value).where(MARKS.c.name == LOOK_MARK)
_FIRST_LOOK: Final = insert(MARKS).on_conflict_do_nothing().returning(MARKS.c.name)
_MOVE_LOOK: Final = (
    update(MARKS)
    .where(MARKS.c.name == LOOK_MARK, MARKS.c.value == bindparam("before_ns"))
    .values(value=bindparam("until_ns"))
)
_day = insert(GPU_DAYS)
_ADD_SECONDS: Final = _day.on_conflict_do_update(
    index_elements=["day", "engine", "node", "gpu_type", "state"],
    set_={"seconds": GPU_DAYS.c.seconds + _day.excluded.seconds},
)
_STATES: Final = (
    select(GPU_DAYS.c.state, func.sum(GPU_DAYS.c.seconds))
    .where(GPU_DAYS.c.day >= bindparam("since_day"), GPU_DAYS.c.day < bindparam("until_day"))
    .group_by(GPU_DAYS.c.state)
)
_HELD: Final = sum(_SECONDS[1:], _SECONDS[0])
#: Each machine type has rows with the same held seconds.
_TYPES: Final = func.count(ATTEMPT_USAGE.c.machine_type.distinct())


def sums_by(by: str, projects: Collection[str] | None, days: int) -> Select[Any]:
    """Return the query of sums by one of ``KEYS`` in so many days."""
    key = without_index(KEYS[by], projects, days)
    no_user = literal("").label("user")
    query = select(key.label("key"), no_user, *_SHAPE, *_SUMS).group_by(key, *_SHAPE)
    return within_days(query, ATTEMPT_USAGE, projects, days)


def jobs_by(by: str, projects: Collection[str] | None, days: int) -> Select[Any]:
    """Return the query of the number of jobs by one of ``KEYS`` in so many days."""
    key = without_index(KEYS[by], projects, days)
    query = select(key, func.count(ATTEMPT_USAGE.c.uid.distinct())).group_by(key)
    return within_days(query, ATTEMPT_USAGE, projects, days)


def _mean_of_gpus(use: str) -> ColumnElement[Any]:
    """Return the seconds of a use, the mean of all GPUs; without GPUs that of all types."""
    column, gpus = ATTEMPT_USAGE.c[f"{use}_s"], ATTEMPT_USAGE.c.gpus
    share = func.sum(gpus * column) / func.nullif(func.sum(gpus * _HELD), 0)
    return func.coalesce(share * func.sum(_HELD), func.sum(column)) / _TYPES


ATTEMPT_USES: Final = (
    select(
        ATTEMPT_USAGE.c.uid,
        ATTEMPT_USAGE.c.attempt,
        func.min(ATTEMPT_USAGE.c.placed_ns),
        func.min(ATTEMPT_USAGE.c.end_ns),
        func.sum(_HELD) / _TYPES,
        *(_mean_of_gpus(use) for use in ("productive", "idle", "unknown")),
        func.sum(ATTEMPT_USAGE.c.gpus * _HELD),
        func.sum(ATTEMPT_USAGE.c.energy_j),
    )
    .where(ATTEMPT_USAGE.c.uid == _WANTED.c.uid)
    .group_by(ATTEMPT_USAGE.c.uid, ATTEMPT_USAGE.c.attempt)
    .order_by(ATTEMPT_USAGE.c.uid, ATTEMPT_USAGE.c.attempt)
)

#: The day, engine, node, type and state of some seconds of GPUs.
GpuDayKey = tuple[int, str, str, str, str]


class StoredUsage:
    """Reads and writes the time of attempts and of GPUs."""

    _db: Database

    def changed_jobs(self, limit: int) -> Sequence[ChangedSeats]:
        """Return the jobs whose seats changed since ``write_usage``, the oldest change first."""
        after = self._db.column(_MARK)
        rows = self._db.rows(CHANGED, after=after[0] if after else 0, most=limit)
        return [ChangedSeats(row.changed, row.uid, row.held_ns is not None) for row in rows]

    def usage_update_ns(self, uid: int) -> int | None:
        """Return when the rows of a job were last written; None without rows."""
        newest: int | None = self._db.column(_UPDATED, of_uid=uid)[0]
        return newest

    def using_jobs(self, uids: Collection[int]) -> Mapping[int, UsingJob]:
        """Return what is stored of the use of some jobs; leaves out uids without a job."""
        if not uids:
            return {}
        wanted = {"wanted": _listed(uids)}
        now_ns = self._db.clock()
        return self._db.read(lambda connection: _read_using(connection, wanted, now_ns))

    def write_usage(
        self,
        job: JobRecord | None,
        rows: Sequence[UsageRow],
        mark: int | None = None,
        event: NewEvent | None = None,
    ) -> None:
        """Replace all rows of a job, as ``write_uses``; without a job only the mark is noted."""
        self.write_uses([] if job is None else [JobUse(job, rows, event)], mark)

    def write_uses(self, uses: Sequence[JobUse], mark: int | None = None) -> None:
        """Replace all rows of some jobs, add their events, and note that jobs were read.

        Leaves out jobs that have the event of their goodput: their rows were written with it, and
        others were computed before the end, or by another server.
        ``mark`` is that of the last job that was read.
        """

        def put(tx: Transaction) -> None:
            if uses:
                settled = lock_jobs_having(tx, GOODPUT, [use.job.uid for use in uses])
                _replace_rows(tx, [use for use in uses if use.job.uid not in settled])
            if mark is not None:
                tx.connection.execute(_SET_MARK, {"name": USAGE_MARK, "value": mark})

        self._db.write(put)

    def usage_rows(self, uid: int) -> Sequence[UsageRow]:
        """Return the rows of a job, also after the job was deleted."""
        query = select(ATTEMPT_USAGE).where(_OF_JOB)
        key = (ATTEMPT_USAGE.c.attempt, ATTEMPT_USAGE.c.machine_type, ATTEMPT_USAGE.c.day)
        return [_usage_row(row) for row in self._db.rows(query.order_by(*key), of_uid=uid)]

    def attempt_uses(self, uids: Collection[int]) -> Sequence[AttemptUse]:
        """Return the time of all attempts of some jobs, by uid and attempt.  Raises StoreFault."""
        wanted = json.dumps([[uid] for uid in uids])

        def fetch(connection: Connection) -> Sequence[AttemptUse]:
            # the driver's own rows: those of SQLAlchemy take three times as long
            cursor: Any = connection.execute(ATTEMPT_USES, {"wanted": wanted}).cursor
            return [AttemptUse._make(row) for row in cursor.fetchall()]

        return self._db.read(fetch)

    def usage_sums(
        self, by: str, *, since_day: int, until_day: int, projects: Collection[str] | None
    ) -> Sequence[UsageSum]:
        """Return sums by one of ``KEYS`` from a day until before another.

        ``projects`` are those that the caller may see; None: all.
        """
        query = sums_by(by, projects, until_day - since_day)
        rows = self._db.rows(query, **bounds_of_days(since_day, until_day, projects))
        return [_usage_sum(row) for row in rows]

    def usage_of_jobs(
        self, limit: int, *, since_day: int, until_day: int, projects: Collection[str] | None
    ) -> Sequence[UsageSum]:
        """Return sums by job, ``PROJECT/JOB``, of the jobs with the most GPU, then vCPU, time."""
        days = until_day - since_day
        uid, held = ATTEMPT_USAGE.c.uid, sum(_SECONDS)
        most = [func.sum(held * ATTEMPT_USAGE.c[kind]).desc() for kind in ("gpus", "vcpus")]
        largest = select(uid).group_by(uid).order_by(*most, uid).limit(limit)
        key = func.min(ATTEMPT_USAGE.c.project + "/" + ATTEMPT_USAGE.c.job_id).label("key")
        user = func.min(ATTEMPT_USAGE.c.creator).label("user")
        query = select(key, user, *_SHAPE, *_SUMS).group_by(uid, *_SHAPE)
        query = query.where(uid.in_(within_days(largest, ATTEMPT_USAGE, projects, days)))
        rows = self._db.rows(
            within_days(query, ATTEMPT_USAGE, projects, days),
            **bounds_of_days(since_day, until_day, projects),
        )
        return [_usage_sum(row) for row in rows]

    def usage_jobs(
        self, by: str, *, since_day: int, until_day: int, projects: Collection[str] | None
    ) -> Mapping[str | int, int]:
        """Return the number of jobs by the same keys."""
        query = jobs_by(by, projects, until_day - since_day)
        rows = self._db.rows(query, **bounds_of_days(since_day, until_day, projects))
        return {row[0]: row[1] for row in rows}

    def usage_job_count(
        self, *, since_day: int, until_day: int, projects: Collection[str] | None
    ) -> int:
        """Return the number of jobs with rows from a day until before another."""
        query = select(func.count(ATTEMPT_USAGE.c.uid.distinct()))
        bounds = bounds_of_days(since_day, until_day, projects)
        return int(
            self._db.column(
                within_days(query, ATTEMPT_USAGE, projects, until_day - since_day), **bounds
            )[0]
        )

    def gpu_look_ns(self) -> int | None:
        """Return until when the seconds of GPUs were added; None: never yet."""
        looks = self._db.column(_LOOK)
        return looks[0] if looks else None

    def add_gpu_seconds(
        self, seconds: Mapping[GpuDayKey, float], *, before_ns: int | None, until_ns: int
    ) -> None:
        """Add seconds of GPUs to their days, up to a time.

        ``before_ns`` is ``gpu_look_ns`` as the caller read it; if another server has added its
        seconds since, nothing is added.
        """
        names = ("day", "engine", "node", "gpu_type", "state")
        values = [
            {**dict(zip(names, key, strict=True)), "seconds": added_s}
            for key, added_s in seconds.items()
        ]

        def put(tx: Transaction) -> None:
            if _move_look(tx, before_ns, until_ns):
                for row in values:
                    tx.connection.execute(_ADD_SECONDS, row)

        self._db.write(put)

    def gpu_seconds(self, *, since_day: int, until_day: int) -> Mapping[str, float]:
        """Return the seconds of all GPUs by state, from a day until before another."""
        rows = self._db.rows(_STATES, since_day=since_day, until_day=until_day)
        return dict(rows)

    def drop_usage(self, before_day: int) -> None:
        """Delete the rows of days before a day."""

        def drop(tx: Transaction) -> None:
            for statement in (_DROP_OLD, DROP_OLD_MACHINES, _DROP_OLD_DAYS):
                tx.connection.execute(statement, {"before_day": before_day})

        self._db.write(drop)


def _listed(uids: Iterable[int]) -> str:
    return json.dumps([[uid] for uid in uids])


def _read_using(
    connection: Connection, wanted: Mapping[str, str], now_ns: int
) -> Mapping[int, UsingJob]:
    jobs = connection.execute(JOBS_IN_USE, wanted).all()
    rows = connection.execute(EVENTS_OF_JOBS, {**wanted, "most": _EVENTS_MAX}).all()
    events: Mapping[int, list[StoredEvent]] = defaultdict(list)
    for row in rows:
        events[row.uid].append(stored_event(row))
    replicas: Mapping[int, dict[int, list[UsingReplica]]] = defaultdict(dict)
    for uid, *values in connection.execute(REPLICAS_IN_USE, wanted):
        replica = UsingReplica(*values)
        replicas[uid].setdefault(replica.attempt, []).append(replica)
    is_whole = len(rows) < _EVENTS_MAX
    return {
        row.uid: _using_job(row, now_ns, events[row.uid] if is_whole else None, replicas[row.uid])
        for row in jobs
    }


def _using_job(
    row: Row[Any],
    now_ns: int,
    events: Sequence[StoredEvent] | None,
    replicas: Mapping[int, Sequence[UsingReplica]],
) -> UsingJob:
    record = job_record(row, now_ns)
    return UsingJob(
        record=record,
        spec=expanded_of(row, record.job.spec),
        demand=decode_demand(row.demand),
        events=events,
        replicas=replicas,
    )


def _replace_rows(tx: Transaction, uses: Sequence[JobUse]) -> None:
    """Replace all rows of some jobs, and add their events."""
    add_events(tx, {use.job.uid: use.event for use in uses if use.event is not None})
    for drop in (DROP, DROP_MACHINES):
        tx.connection.execute(drop, {"wanted": _listed(use.job.uid for use in uses)})
    values = [_values(use.job, row, tx.now_ns) for use in uses for row in use.rows]
    add_rows(tx, ATTEMPT_USAGE, values)
    machines = [machine_values(use.job, row) for use in uses for row in use.machines]
    add_rows(tx, MACHINE_USAGE, machines)


def _move_look(tx: Transaction, before_ns: int | None, until_ns: int) -> bool:
    """Set until when the seconds of GPUs were added; False if another server has done it."""
    if before_ns is None:
        row = {"name": LOOK_MARK, "value": until_ns}
        return tx.connection.execute(_FIRST_LOOK, row).first() is not None
    moved = {"before_ns": before_ns, "until_ns": until_ns}
    return bool(tx.connection.execute(_MOVE_LOOK, moved).rowcount)


def _values(job: JobRecord, row: UsageRow, now_ns: int) -> dict[str, Any]:
    return {
        "uid": job.uid,
        "attempt": row.attempt,
        "machine_type": codec.plain(row.machine_type),
        "day": row.day,
        "project": codec.plain(job.job.project),
        "creator": codec.plain(job.creator),
        "job_id": codec.plain(job.job.job_id),
        "gpus": row.gpus,
        "vcpus": row.vcpus,
        "placed_ns": row.placed_ns,
        "end_ns": row.end_ns,
        **{f"{use}_s": row.seconds.get(use, 0.0) for use in HELD_USES},
        "energy_j": row.energy_j,
        "hour_price": row.hour_price,
        "currency": codec.plain(row.currency),
        "price_source": codec.plain(row.price_source),
        "price_date": row.price_date,
        "update_ns": now_ns,
    }


def _seconds(row: Any) -> dict[str, float]:
    return {use: value for use in HELD_USES if (value := getattr(row, f"{use}_s"))}


def _usage_row(row: Any) -> UsageRow:
    names = [name for name in UsageRow.__slots__ if name != "seconds"]
    return UsageRow(seconds=_seconds(row), **{name: getattr(row, name) for name in names})


def _usage_sum(row: Any) -> UsageSum:
    names = [name for name in UsageSum.__slots__ if name != "seconds"]
    return UsageSum(seconds=_seconds(row), **{name: getattr(row, name) for name in names})
