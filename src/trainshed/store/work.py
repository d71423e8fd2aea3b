"""Queries and writes of the controller: leases, waiting jobs, held seats, commands."""

import json
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Integer,
    Select,
    Text,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    tuple_,
    update,
)

from trainshed.lifecycle.events import Command
from trainshed.model.attempt import AttemptKey
from trainshed.model.explanation import Explanation
from trainshed.model.status import JobState
from trainshed.store import codec, rows
from trainshed.store.bulk import given
from trainshed.store.database import Database
from trainshed.store.front import HELD, IN_LINE, IS_FREE, QUEUED
from trainshed.store.records.jobs import Active, Due, Holding, WaitingJob
from trainshed.store.records.steps import NewEvent, StoredCommand
from trainshed.store.steady_clock import note
from trainshed.store.story import add_event
from trainshed.store.tables import ATTEMPTS, COMMANDS, JOBS, LEASES, MARKS
from trainshed.store.upsert import insert
from trainshed.store.writer import HOLDING_MARK, Transaction

_SCHEDULER = "scheduler"
_SERVER = "server:"
_NS_PER_S = 1_000_000_000

_new = insert(LEASES)
#: Takes a lease that the server already holds, or that has expired.
_TAKE = _new.on_conflict_do_update(
    index_elements=["name"],
    set_={"holder": _new.excluded.holder, "until_ns": _new.excluded.until_ns},
    where=or_(
        LEASES.c.holder == _new.excluded.holder,
        LEASES.c.until_ns <= bindparam("now_ns", type_=BigInteger),
    ),
).returning(LEASES.c.name)
_VALID = select(LEASES.c.name).where(
    LEASES.c.name == bindparam("of_name"), LEASES.c.until_ns > bindparam("now_ns", type_=BigInteger)
)
#: The names of all servers with a valid lease.
ALIVE = select(LEASES.c.holder).where(
    LEASES.c.name != _SCHEDULER, LEASES.c.until_ns > bindparam("now_ns", type_=BigInteger)
)

_SERVERS = ALIVE.order_by(LEASES.c.holder)


def has_lease(tx: Transaction, server: str) -> bool:
    """Whether a server's lease is valid now."""
    parameters = {"of_name": _SERVER + server, "now_ns": tx.now_ns}
    return tx.connection.execute(_VALID, parameters).first() is not None


class StoredLeases:
    """The leases of servers and of the scheduler."""

    _db: Database

    def join(self, server: str, ttl_s: float, *, lead: bool = False) -> bool:
        """Take or renew a server's lease for ``ttl_s`` seconds; with ``lead`` the scheduler's too.

        Return whether this server took the scheduler's lease: no other server holds it.  One
        transaction, because a server at rest does little else.
        """

        def join(tx: Transaction) -> bool:
            _take(tx, _SERVER + server, server, ttl_s)
            note(tx.connection, self._db.clock)
            return lead and _take(tx, _SCHEDULER, server, ttl_s)

        return self._db.write(join)

    def servers(self) -> Sequence[str]:
        """Return the names of the servers with a valid lease, sorted."""
        return self._db.column(_SERVERS, now_ns=self._db.clock())

    def leave(self, server: str) -> None:
        """Delete a server's leases, so that other servers can take over its jobs at once."""
        self._db.put(delete(LEASES).where(LEASES.c.holder == server))


def _take(tx: Transaction, name: str, holder: str, ttl_s: float) -> bool:
    until_ns = tx.now_ns + int(ttl_s * _NS_PER_S)
    row = {"name": name, "holder": holder, "until_ns": until_ns, "now_ns": tx.now_ns}
    return tx.connection.execute(_TAKE, row).first() is not None


WAITING = rows.WAITING.where(QUEUED, IS_FREE).order_by(*IN_LINE).limit(bindparam("most"))
WAITING_AFTER = WAITING.where(
    tuple_(*IN_LINE) > tuple_(bindparam("rank"), bindparam("create_ns"), bindparam("uid"))
)
UNEXPLAINED = (
    select(*IN_LINE)
    .where(QUEUED, JOBS.c.explanation.is_(None))
    .order_by(*IN_LINE)
    .limit(bindparam("most"))
)
WAITING_COUNT = select(func.count()).select_from(JOBS).where(QUEUED)
#: Lists the states, so that the database uses their index and reads no ended jobs.
_OPEN_COUNT = select(func.count()).where(
    JOBS.c.project == bindparam("of_project"),
    JOBS.c.state.in_(sorted(state.value for state in JobState if not state.is_final)),
    JOBS.c.deleted_ns.is_(None),
)
CHANGED = select(JOBS.c.uid).where(JOBS.c.changed > bindparam("after"), JOBS.c.held_ns.is_(None))
CAME = rows.HOLDING.where(JOBS.c.changed > bindparam("after"))
_MARK = select(MARKS.c.value).where(MARKS.c.name == HOLDING_MARK)
ACTIVE = select(
    JOBS.c.uid,
    JOBS.c.state,
    JOBS.c.version,
    JOBS.c.attempt,
    JOBS.c.restarts,
    JOBS.c.explanation.is_not(None),
).where(JOBS.c.held_ns.is_not(None), JOBS.c.owner == bindparam("server"))
DUE = (
    select(
        JOBS.c.uid,
        JOBS.c.state,
        JOBS.c.version,
        JOBS.c.attempt,
        JOBS.c.start_ns.is_not(None).label("has_run"),
    )
    .where(JOBS.c.deadline_ns.is_not(None), JOBS.c.deadline_ns <= bindparam("now_ns"))
    .order_by(JOBS.c.deadline_ns)
    .limit(bindparam("most"))
)
_OWNERLESS = or_(JOBS.c.owner.is_(None), JOBS.c.owner.not_in(ALIVE))
_OWN = {"owner": bindparam("server"), "version": JOBS.c.version + 1}
TAKE_OVER = (
    update(JOBS).where(JOBS.c.held_ns.is_not(None), _OWNERLESS).values(_OWN).returning(JOBS.c.uid)
)
#: Takes over ended jobs with unconfirmed commands.
TAKE_OVER_REST = (
    update(JOBS)
    .where(JOBS.c.uid.in_(select(COMMANDS.c.uid)), _OWNERLESS)
    .values(owner=bindparam("server"))
)
_HAS_OWNERLESS = select(
    or_(
        exists().where(JOBS.c.held_ns.is_not(None), _OWNERLESS),
        exists().where(JOBS.c.uid.in_(select(COMMANDS.c.uid)), _OWNERLESS),
    )
)
COMMANDS_OF_SERVER = (
    select(COMMANDS)
    .join(JOBS, JOBS.c.uid == COMMANDS.c.uid)
    .where(JOBS.c.owner == bindparam("server"))
    .order_by(COMMANDS.c.seq)
    .limit(bindparam("most"))
)
_ONLY = given("only", uid=BigInteger)
_DONE = given("done", seq=BigInteger)
CONFIRM = delete(COMMANDS).where(COMMANDS.c.seq.in_(select(_DONE.c.seq))).returning(COMMANDS.c.uid)
_EXPLANATIONS = given("explanations", uid=BigInteger, explanation=Text, state=Text)
_ATTEMPT_KEYS = given("attempt_keys", uid=BigInteger, attempt=Integer)
ENGINES = select(ATTEMPTS.c.uid, ATTEMPTS.c.attempt, ATTEMPTS.c.engine).where(
    ATTEMPTS.c.uid == _ATTEMPT_KEYS.c.uid, ATTEMPTS.c.attempt == _ATTEMPT_KEYS.c.attempt
)
#: Unconfirmed launches into the queues of engines.
HANDING_OVER = (
    select(ATTEMPTS.c.engine, func.count().label("launches"))
    .select_from(COMMANDS)
    .join(JOBS, JOBS.c.uid == COMMANDS.c.uid)
    .join(ATTEMPTS, (ATTEMPTS.c.uid == COMMANDS.c.uid) & (ATTEMPTS.c.attempt == COMMANDS.c.attempt))
    .where(COMMANDS.c.kind == Command.LAUNCH.value, JOBS.c.state == JobState.ENQUEUED.value)
    .group_by(ATTEMPTS.c.engine)
)
EXPLAIN = (
    update(JOBS)
    .where(
        JOBS.c.uid == _EXPLANATIONS.c.uid,
        JOBS.c.state == _EXPLANATIONS.c.state,
        IS_FREE,  # the scheduler may have read the job before it was held
    )
    .values(explanation=_EXPLANATIONS.c.explanation)
)
_RESUME = (
    update(JOBS)
    .where(JOBS.c.uid == bindparam("of_uid"), QUEUED, JOBS.c.refusals == HELD)
    .values(
        refusals=0,
        refused_ns=None,
        explanation=None,
        version=JOBS.c.version + 1,
        update_ns=bindparam("now_ns", type_=BigInteger),
    )
)


_NONE: Mapping[int, NewEvent] = {}


class Work:
    """The reads and writes of the controller."""

    _db: Database

    def take_over(self, server: str) -> Sequence[int]:
        """Make a server the owner of all active jobs without a live owner; return their uids.

        It writes only if there are any: each write makes every server read the placements again.
        """
        if not any(self._db.column(_HAS_OWNERLESS, now_ns=self._db.clock())):
            return ()
        return self._db.write_with_others(_take_over_all, server, marked=True)

    def waiting(
        self, *, limit: int, after: tuple[int, int, int] | None = None
    ) -> Sequence[WaitingJob]:
        """Return queued jobs by priority, then age.

        ``after`` is (priority, create time in ns, uid) of the last job of the previous call.
        """
        parameters = {"most": limit}
        query = WAITING
        if after is not None:
            priority, create_ns, uid = after
            parameters |= {"rank": -priority, "create_ns": create_ns, "uid": uid}
            query = WAITING_AFTER
        return [rows.waiting(row) for row in self._db.rows(query, **parameters)]

    def unexplained(self, *, limit: int) -> Sequence[tuple[int, int, int]]:
        """Return (priority, create time in ns, uid) of queued jobs without an explanation.

        The order is that of the queue.
        """
        jobs = self._db.rows(UNEXPLAINED, most=limit)
        return [(-row.rank, row.create_ns, row.uid) for row in jobs]

    def waiting_count(self) -> int:
        """Return the number of queued jobs."""
        return self._db.read(lambda c: c.execute(WAITING_COUNT).scalar_one())

    def open_count(self, project: str) -> int:
        """Return the number of a project's jobs that have not ended."""
        values = {"of_project": codec.plain(project)}
        return self._db.read(lambda c: c.execute(_OPEN_COUNT, values).scalar_one())

    def holding(self) -> Sequence[Holding]:
        """Return all attempts that hold seats or a claim, of all servers."""
        return [rows.holding(row) for row in self._db.rows(rows.HOLDING)]

    def holding_changed(self, after: int) -> tuple[int, Sequence[Holding], Sequence[int]]:
        """Return the changes after a mark: (new mark, new holdings, uids that hold nothing now).

        The uids include jobs that were cancelled while they waited and never held seats.
        The mark is read first: a change meanwhile may be returned twice, but is never missed.
        """
        mark = self._db.read(lambda c: c.execute(_MARK).scalar_one())
        if mark <= after:
            return mark, (), ()
        new_rows = self._db.rows(CAME, after=after)
        freed_uids = self._db.column(CHANGED, after=after) if after else ()
        return mark, [rows.holding(row) for row in new_rows], freed_uids

    def active(self, server: str, *, uids: Collection[int] | None = None) -> Sequence[Active]:
        """Return the jobs that a server reconciles, or only those in ``uids``."""
        query, parameters = _narrow(ACTIVE, uids)
        parameters["server"] = server
        return [
            Active(
                uid=uid,
                state=JobState(state),
                version=version,
                attempt=attempt,
                restarts=rows.restarts(restarts),
                explained=bool(explained),
            )
            for uid, state, version, attempt, restarts, explained in self._db.rows(
                query, **parameters
            )
        ]

    def due(self, *, limit: int) -> Sequence[Due]:
        """Return jobs that have used up their waiting time or run time, the earliest first."""
        return [
            rows.of_columns(Due, row, state=JobState(row.state), has_run=bool(row.has_run))
            for row in self._db.rows(DUE, now_ns=self._db.clock(), most=limit)
        ]

    def commands(
        self, server: str, *, limit: int = 500, uids: Collection[int] | None = None
    ) -> Sequence[StoredCommand]:
        """Return unconfirmed commands of a server's jobs, or only of ``uids``, the oldest first."""
        query, parameters = _narrow(COMMANDS_OF_SERVER, uids)
        parameters |= {"server": server, "most": limit}
        return [rows.command(row) for row in self._db.rows(query, **parameters)]

    def confirm(self, seqs: Collection[int], events: Mapping[int, NewEvent] = _NONE) -> None:
        """Delete commands that were performed, and add events to jobs whose command was there.

        ``events`` are by the uids of the jobs.
        """
        if not seqs:
            return

        def put(tx: Transaction) -> None:
            rows = tx.connection.execute(CONFIRM, {"done": json.dumps([[seq] for seq in seqs])})
            for uid in {row.uid for row in rows} & events.keys():
                add_event(tx, uid, events[uid])

        self._db.write(put)

    def engines_of(self, keys: Collection[AttemptKey]) -> Mapping[AttemptKey, str]:
        """Return the engines of attempts, empty for the first engine; omits unknown attempts."""
        key_rows = json.dumps([[key.uid, key.attempt] for key in keys])
        attempts = self._db.rows(ENGINES, attempt_keys=key_rows) if keys else ()
        return {AttemptKey(uid, attempt): engine for uid, attempt, engine in attempts}

    def resume(self, uid: int, event: NewEvent) -> bool:
        """Let a held job wait for the scheduler again; return whether it was held."""

        def put(tx: Transaction) -> bool:
            values = {"of_uid": uid, "now_ns": tx.now_ns}
            is_resumed = bool(tx.connection.execute(_RESUME, values).rowcount)
            if is_resumed:
                add_event(tx, uid, event)
            return is_resumed

        return self._db.write(put)

    def handing_over(self) -> Mapping[str, int]:
        """Return the number of unconfirmed launches into the queue of each engine."""
        return {row.engine: row.launches for row in self._db.rows(HANDING_OVER)}

    def explain(
        self, explanations: Mapping[int, Explanation | None], state: JobState = JobState.QUEUED
    ) -> None:
        """Store why jobs in ``state`` wait; None deletes the explanation.

        Versions and etags stay.  A held job keeps the reason why it is held.
        """
        explained_rows = [
            (uid, why and codec.EXPLANATION.encode(why), state.value)
            for uid, why in explanations.items()
        ]
        if explained_rows:
            self._db.put(EXPLAIN, explanations=json.dumps(explained_rows))


def _narrow(query: Select[Any], uids: Collection[int] | None) -> tuple[Select[Any], dict[str, Any]]:
    if uids is None:
        return query, {}
    return of_some(query), {"only": json.dumps([[uid] for uid in uids])}


@cache
def of_some(query: Select[Any]) -> Select[Any]:
    """Return the query limited to the uids of a bound JSON array (``only``)."""
    return query.where(JOBS.c.uid.in_(select(_ONLY.c.uid)))


def _take_over_all(tx: Transaction, servers: Sequence[str]) -> Sequence[Sequence[int]]:
    return [_take_over(tx, server) for server in servers]


def _take_over(tx: Transaction, server: str) -> Sequence[int]:
    if not has_lease(tx, server):
        return ()
    parameters = {"server": server, "now_ns": tx.now_ns}
    uids = tx.connection.execute(TAKE_OVER, parameters).scalars().all()
    tx.connection.execute(TAKE_OVER_REST, parameters)
    return uids
