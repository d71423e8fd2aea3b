"""The rows that the steps of one write add to tables other than jobs, table by table."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import BigInteger, Integer, Row, Text, delete, select, tuple_, update

from trainshed.lifecycle.events import Command
from trainshed.model.resources import Seat
from trainshed.model.status import JobState
from trainshed.model.step_times import STEPS
from trainshed.store import codec
from trainshed.store.bulk import add_new_rows, add_rows, given
from trainshed.store.records.steps import ReplicaRow, Step
from trainshed.store.story import event_rows
from trainshed.store.tables import ATTEMPTS, COMMANDS, EVENTS, OUTCOMES, REPLICAS
from trainshed.store.writer import Transaction

_GONE = given("gone", uid=BigInteger, attempt=Integer)
DROP_LAUNCHES = delete(COMMANDS).where(
    COMMANDS.c.uid.in_(select(_GONE.c.uid)), COMMANDS.c.kind == Command.LAUNCH.value
)
DROP_REPLICAS = delete(REPLICAS).where(
    tuple_(REPLICAS.c.uid, REPLICAS.c.attempt).in_(select(_GONE.c.uid, _GONE.c.attempt))
)

_PLACED = given("placed", uid=BigInteger, attempt=Integer, seats=Text)
PLACE = (
    update(ATTEMPTS)
    .where(ATTEMPTS.c.uid == _PLACED.c.uid, ATTEMPTS.c.attempt == _PLACED.c.attempt)
    .values(seats=_PLACED.c.seats)
)

#: States in which a stored LAUNCH command is still needed.
_NEEDS_LAUNCH = frozenset({JobState.ENQUEUED, JobState.PREPARING, JobState.RUNNING})


@dataclass(slots=True)
class Additions:
    """The rows that the steps of one write add to tables other than jobs."""

    attempts: list[dict[str, Any]] = field(default_factory=list)
    replicas: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    commands: list[dict[str, Any]] = field(default_factory=list)
    outcomes: list[dict[str, Any]] = field(default_factory=list)
    placed: list[tuple[int, int, str]] = field(default_factory=list)
    drop_launches: list[tuple[int, None]] = field(default_factory=list)
    drop_replicas: list[tuple[int, int]] = field(default_factory=list)

    def add(self, step: Step, row: Row[Any], now_ns: int) -> None:
        """Collect the rows that an applied step adds; ``row`` is the result of its update."""
        opens = opens_attempt(step)
        self._add_replicas(step, row.attempt, opens=opens)
        if opens:
            self.attempts.append(_attempt_row(step, row.attempt, now_ns))
        elif step.placed:
            self.placed.append((step.uid, row.attempt, codec.SEATS.encode(step.placed)))
        self.events.extend(event_rows(step.uid, row.attempt, row.last_stamp_ns, step.events))
        if any(event.kind == STEPS for event in step.events):
            key = {"uid": step.uid, "attempt": row.attempt}
            self.outcomes.append({**key, "create_ns": now_ns})
        if step.state not in _NEEDS_LAUNCH:
            self._drop_launches(step.uid)
        if row.attempt:  # a job without an attempt has nothing to stop
            self.commands.extend(_command_row(step, row.attempt, kind) for kind in step.commands)

    def write(self, tx: Transaction) -> None:
        """Write all collected rows."""
        for statement, rows in (
            (DROP_LAUNCHES, self.drop_launches),
            (DROP_REPLICAS, self.drop_replicas),
        ):
            if rows:
                tx.connection.execute(statement, {"gone": json.dumps(rows)})
        if self.placed:
            tx.connection.execute(PLACE, {"placed": json.dumps(self.placed)})
        add_rows(tx, ATTEMPTS, self.attempts)
        add_rows(tx, REPLICAS, self.replicas)
        add_rows(tx, EVENTS, self.events)
        add_rows(tx, COMMANDS, self.commands)
        add_new_rows(tx, OUTCOMES, self.outcomes)

    def _add_replicas(self, step: Step, attempt: int, *, opens: bool) -> None:
        """Collect the rows of replicas: those of the step, or of the seats of a new attempt."""
        replicas = step.replicas
        if replicas is not None and not opens:
            self._drop_replicas(step.uid, attempt)
        if replicas is None:
            replicas = tuple(_placed_row(seat) for seat in step.seats) if opens else ()
        self.replicas.extend(_replica_row(step.uid, attempt, replica) for replica in replicas)

    def _drop_launches(self, uid: int) -> None:
        self.drop_launches.append((uid, None))
        launch = Command.LAUNCH.value
        self.commands = [c for c in self.commands if c["uid"] != uid or c["kind"] != launch]

    def _drop_replicas(self, uid: int, attempt: int) -> None:
        self.drop_replicas.append((uid, attempt))
        key = (uid, attempt)
        self.replicas = [r for r in self.replicas if (r["uid"], r["attempt"]) != key]


def opens_attempt(step: Step) -> bool:
    """Whether a step gives its job seats or a claim, and so begins the next attempt."""
    if step.state is JobState.ENQUEUED:
        return step.claim is not None
    return step.state is JobState.PREPARING and bool(step.seats)


def _attempt_row(step: Step, attempt: int, now_ns: int) -> dict[str, Any]:
    return {
        "uid": step.uid,
        "attempt": attempt,
        "seats": codec.SEATS.encode(step.seats),
        "engine": codec.plain(step.engine or _engine_of(step.seats)),
        "claim": None if step.claim is None else codec.CLAIM.encode(step.claim),
        "create_ns": now_ns,
    }


def _engine_of(seats: Sequence[Seat]) -> str:
    return next((seat.engine for seat in seats if seat.engine), "")


def _command_row(step: Step, attempt: int, kind: Command) -> dict[str, Any]:
    order = step.stop if kind is Command.STOP else None
    stop = None if order is None else codec.STOP.encode(order)
    return {"uid": step.uid, "attempt": attempt, "kind": kind.value, "stop": stop}


def _placed_row(seat: Seat) -> ReplicaRow:
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
