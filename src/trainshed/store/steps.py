"""Performs steps: each a guarded update of one row, with all that goes with it in one commit.

Per step one statement decides whether it fits; what the fitting ones add to other tables is
collected and written table by table.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Integer,
    Row,
    Text,
    bindparam,
    case,
    delete,
    func,
    null,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from trainshed.model.resources import Seat
from trainshed.model.status import FINAL, JobState
from trainshed.store import codec
from trainshed.store.bulk import add_rows, given
from trainshed.store.database import Database
from trainshed.store.leases import has_lease
from trainshed.store.records import CommandKind, ReplicaRow, Step
from trainshed.store.story import event_rows, next_stamp
from trainshed.store.tables import ATTEMPTS, COMMANDS, EVENTS, JOBS, REPLICAS
from trainshed.store.writer import Transaction

_GONE = given("gone", uid=BigInteger, attempt=Integer)
DROP_LAUNCHES = delete(COMMANDS).where(
    COMMANDS.c.uid.in_(select(_GONE.c.uid)), COMMANDS.c.kind == CommandKind.LAUNCH.value
)
DROP_REPLICAS = delete(REPLICAS).where(
    tuple_(REPLICAS.c.uid, REPLICAS.c.attempt).in_(select(_GONE.c.uid, _GONE.c.attempt))
)

_NOW: Final = bindparam("now_ns", type_=BigInteger)
#: What entering a state means for its row, beyond what every step does.
_RELEASE: Final[Mapping[str, Any]] = {
    "held_ns": null(),
    "changed": case(
        (JOBS.c.held_ns.is_not(None), bindparam("mark", type_=BigInteger)), else_=JOBS.c.changed
    ),
}
_END: Final[Mapping[str, Any]] = {
    "held_ns": null(),
    "changed": bindparam("mark", type_=BigInteger),  # also one that ends while it waits
    "end_ns": func.coalesce(JOBS.c.end_ns, _NOW),
    "explanation": null(),
}
_ON_ENTER: Final[Mapping[JobState, Mapping[str, Any]]] = {
    JobState.QUEUED: _RELEASE,
    JobState.PREPARING: {},
    JobState.RUNNING: {"start_ns": func.coalesce(JOBS.c.start_ns, _NOW)},
    JobState.CANCELLING: {},
    JobState.SUCCEEDED: _END,
    JobState.FAILED: _END,
    JobState.CANCELLED: _END,
}
_ON_OPENING: Final[Mapping[str, Any]] = {
    "attempt": JOBS.c.attempt + 1,
    "held_ns": _NOW,
    "changed": bindparam("mark", type_=BigInteger),
    "explanation": null(),
}
#: An error that is not given stays only where the job still ends because of it.
_KEEPS_ERROR = FINAL | {JobState.CANCELLING}
#: States in which a launch that was asked for is still wanted.
_WANTS_LAUNCH = frozenset({JobState.PREPARING, JobState.RUNNING})


#: One row a step: what differs between steps that enter the same state, and the state that it must
#: come from; were that one written out, PostgreSQL might go through the whole queue to find it.
_STEP = given(
    "steps", uid=BigInteger, version=Integer, events=Integer, owner=Text, error=Text, before=Text
)


def _statement(state: JobState, *, opens: bool) -> ReturningUpdate[tuple[int, int, int]]:
    error = _STEP.c.error
    stays = or_(JOBS.c.end_ns.is_(None), JOBS.c.state == state.value)
    return (
        update(JOBS)
        .where(
            JOBS.c.uid == _STEP.c.uid,
            JOBS.c.version == _STEP.c.version,
            JOBS.c.state == _STEP.c.before if opens else stays,
        )
        .values(
            state=state.value,
            version=JOBS.c.version + 1,
            update_ns=_NOW,
            last_stamp_ns=case(
                (_STEP.c.events > 0, next_stamp(_STEP.c.events)), else_=JOBS.c.last_stamp_ns
            ),
            owner=func.coalesce(_STEP.c.owner, JOBS.c.owner),
            error=func.coalesce(error, JOBS.c.error) if state in _KEEPS_ERROR else error,
            **_ON_ENTER[state],
            **(_ON_OPENING if opens else {}),
        )
        .returning(JOBS.c.uid, JOBS.c.attempt, JOBS.c.last_stamp_ns)
    )


STATEMENTS: Final = {
    (state, opens): _statement(state, opens=opens)
    for state in JobState
    for opens in ((False, True) if state is JobState.PREPARING else (False,))
}


@dataclass(slots=True)
class _Additions:
    """What the steps of one write add to the tables beside jobs."""

    attempts: list[dict[str, Any]] = field(default_factory=list)
    replicas: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    commands: list[dict[str, Any]] = field(default_factory=list)
    drop_launches: list[tuple[int, None]] = field(default_factory=list)
    drop_replicas: list[tuple[int, int]] = field(default_factory=list)

    def add(self, step: Step, row: Row[Any], now_ns: int) -> None:
        opens = _opens(step)
        self._add_replicas(step, row.attempt, opens=opens)
        if opens:
            seats = codec.SEATS.encode(step.seats)
            key = {"uid": step.uid, "attempt": row.attempt}
            self.attempts.append({**key, "seats": seats, "create_ns": now_ns})
        self.events.extend(event_rows(step.uid, row.attempt, row.last_stamp_ns, step.events))
        if step.state not in _WANTS_LAUNCH:
            self._drop_launches(step.uid)
        if row.attempt:  # what was never opened needs no stopping
            self.commands.extend(
                {"uid": step.uid, "attempt": row.attempt, "kind": kind.value}
                for kind in step.commands
            )

    def write(self, tx: Transaction) -> None:
        for statement, rows in (
            (DROP_LAUNCHES, self.drop_launches),
            (DROP_REPLICAS, self.drop_replicas),
        ):
            if rows:
                tx.connection.execute(statement, {"gone": json.dumps(rows)})
        add_rows(tx, ATTEMPTS, self.attempts)
        add_rows(tx, REPLICAS, self.replicas)
        add_rows(tx, EVENTS, self.events)
        add_rows(tx, COMMANDS, self.commands)

    def _add_replicas(self, step: Step, attempt: int, *, opens: bool) -> None:
        replicas = step.replicas
        if replicas is not None and not opens:
            self._drop_replicas(step.uid, attempt)
        if replicas is None:
            replicas = tuple(_placed(seat) for seat in step.seats) if opens else ()
        self.replicas.extend(_replica_row(step.uid, attempt, replica) for replica in replicas)

    def _drop_launches(self, uid: int) -> None:
        self.drop_launches.append((uid, None))
        launch = CommandKind.LAUNCH.value
        self.commands = [c for c in self.commands if c["uid"] != uid or c["kind"] != launch]

    def _drop_replicas(self, uid: int, attempt: int) -> None:
        self.drop_replicas.append((uid, attempt))
        key = (uid, attempt)
        self.replicas = [r for r in self.replicas if (r["uid"], r["attempt"]) != key]


def _opens(step: Step) -> bool:
    return step.state is JobState.PREPARING and bool(step.seats)


def _placed(seat: Seat) -> ReplicaRow:
    return ReplicaRow(
        role=seat.role.value,
        index=seat.index,
        task_name=f"{seat.role.value}-{seat.index}",
        node=seat.node,
        state="PLACED",
    )


def _replica_row(uid: int, attempt: int, replica: ReplicaRow) -> dict[str, Any]:
    return {
        "uid": uid,
        "attempt": attempt,
        "role": replica.role,
        "number": replica.index,
        "task_name": replica.task_name,
        "node": replica.node,
        "state": replica.state,
        "exit_code": replica.exit_code,
        "signal": replica.signal,
    }


class Steps:
    """The one way in which a job's state changes."""

    _db: Database

    def apply(self, steps: Sequence[Step]) -> Sequence[bool]:
        """Perform each step that still fits its row, all in one transaction; say which did."""
        return self._db.write_with_others(_apply_all, steps, marked=True) if steps else ()


def _apply_all(tx: Transaction, calls: Sequence[Sequence[Step]]) -> Sequence[Sequence[bool]]:
    fitted = iter(_apply(tx, [step for steps in calls for step in steps]))
    return [[next(fitted) for _ in steps] for steps in calls]


def _apply(tx: Transaction, steps: Sequence[Step]) -> Sequence[bool]:
    servers = {step.server for step in steps if step.server is not None}
    alive = {None} | {server for server in servers if has_lease(tx, server)}
    additions = _Additions()
    fitted = [False] * len(steps)
    for state, opens, places in _groups(steps, alive):
        found = _update(tx, state, [steps[place] for place in places], opens=opens)
        for place in places:
            row = found.get(steps[place].uid)
            if row is not None:
                fitted[place] = True
                additions.add(steps[place], row, tx.now_ns)
    additions.write(tx)
    return fitted


def _groups(
    steps: Sequence[Step], alive: Collection[str | None]
) -> Iterator[tuple[JobState, bool, Sequence[int]]]:
    """Places of steps that enter one state; two steps of one job are never in one group."""
    rounds: dict[tuple[int, JobState, bool], list[int]] = {}
    seen: Counter[int] = Counter()
    for place, step in enumerate(steps):
        if step.server in alive:
            rounds.setdefault((seen[step.uid], step.state, _opens(step)), []).append(place)
            seen[step.uid] += 1
    for key in sorted(rounds, key=lambda key: key[0]):
        yield key[1], key[2], rounds[key]


def _update(
    tx: Transaction, state: JobState, steps: Sequence[Step], *, opens: bool
) -> Mapping[int, Row[Any]]:
    rows = [
        [
            step.uid,
            step.version,
            len(step.events),
            None if step.owner is None else codec.plain(step.owner),
            None if step.error is None else codec.ERROR.encode(step.error),
            JobState.QUEUED.value,
        ]
        for step in steps
    ]
    known = {"steps": json.dumps(rows), "now_ns": tx.now_ns, "mark": tx.mark}
    return {row.uid: row for row in tx.connection.execute(STATEMENTS[state, opens], known)}
