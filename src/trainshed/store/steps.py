"""Applies steps to jobs.

Each step updates the job's row only if the row is unchanged, in one commit with the step's events
and commands.  Rows for other tables are collected and written table by table.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Row,
    Text,
    bindparam,
    case,
    func,
    null,
    or_,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from trainshed.model.event_kinds import NOTICE_HONOURED
from trainshed.model.status import JobState
from trainshed.store import codec, times
from trainshed.store.bulk import given
from trainshed.store.database import Database
from trainshed.store.front import HELD
from trainshed.store.records.steps import CommittedChange, Step
from trainshed.store.step_rows import Additions, opens_attempt
from trainshed.store.story import next_stamp
from trainshed.store.tables import JOBS
from trainshed.store.work import has_lease
from trainshed.store.writer import Transaction

_NOW: Final = bindparam("now_ns", type_=BigInteger)
#: One row for each step: the values that differ between steps that enter the same state, and the
#: state before.  With a literal state PostgreSQL might scan the whole queue to find the job.
_STEP = given(
    "steps",
    uid=BigInteger,
    version=Integer,
    events=Integer,
    owner=Text,
    error=Text,
    before=Text,
    restarts=Text,
    ran_ns=BigInteger,
    refused=Text,
    held=Text,
    placed=Integer,
)
#: Columns that a step into a state changes, besides those that every step changes.
_RELEASE: Final[Mapping[str, Any]] = {
    "held_ns": null(),
    "changed": case(
        (JOBS.c.held_ns.is_not(None), bindparam("mark", type_=BigInteger)), else_=JOBS.c.changed
    ),
}
_END: Final[Mapping[str, Any]] = {
    "held_ns": null(),
    "changed": bindparam("mark", type_=BigInteger),  # also if the job ends while it waits
    "end_ns": func.coalesce(JOBS.c.end_ns, _NOW),
    "explanation": null(),
}
_MARK: Final = bindparam("mark", type_=BigInteger)
#: Marks the row as changed, so that counts of an engine's queue and of seats are updated.
_LEAVE_QUEUE: Final[Mapping[str, Any]] = {
    "changed": case(
        (or_(JOBS.c.state == JobState.ENQUEUED.value, _STEP.c.placed > 0), _MARK),
        else_=JOBS.c.changed,
    ),
}
#: The engine has accepted the job.
_ACCEPTED: Final[Mapping[str, Any]] = {"refused_ns": null(), "refusals": 0}
_ON_ENTER: Final[Mapping[JobState, Mapping[str, Any]]] = {
    JobState.QUEUED: _RELEASE,
    JobState.ENQUEUED: {},
    JobState.PREPARING: {**_LEAVE_QUEUE, **_ACCEPTED},
    JobState.RUNNING: {
        **_LEAVE_QUEUE,
        **_ACCEPTED,
        "start_ns": func.coalesce(JOBS.c.start_ns, _NOW),
    },
    JobState.RESTARTING: _LEAVE_QUEUE,
    JobState.CANCELLING: _LEAVE_QUEUE,
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
#: In these states a step without an error keeps the stored error, because it ended the job.
_KEEPS_ERROR = {JobState.CANCELLING, JobState.CANCELLED, JobState.FAILED}


#: What the other tables and the listener need of an updated row.
_RETURNED: Final = (
    JOBS.c.uid,
    JOBS.c.attempt,
    JOBS.c.last_stamp_ns,
    JOBS.c.project,
    JOBS.c.kind,
    JOBS.c.create_ns,
    JOBS.c.start_ns,
    JOBS.c.end_ns,
    JOBS.c.running_since_ns,
    JOBS.c.ran_ns,
    JOBS.c.is_study,
    JOBS.c.error,
)


def _statement(state: JobState, *, opens: bool) -> ReturningUpdate[Any]:
    """Return the UPDATE for steps that enter a state; ``opens`` begins a new attempt."""
    # as an expression: else PostgreSQL would read the whole index of open jobs, not a few keys
    is_open = func.coalesce(JOBS.c.end_ns, 0) == 0
    stays = or_(is_open, JOBS.c.state == state.value)
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
            error=_error(state),
            restarts=func.coalesce(_STEP.c.restarts, JOBS.c.restarts),
            **times.on_enter(state, _STEP.c.ran_ns),
            **{**_explanation(state), **_ON_ENTER[state], **(_ON_OPENING if opens else {})},
        )
        .returning(*_RETURNED)
    )


def _error(state: JobState) -> ColumnElement[str | None]:
    """Return the new error of the row; a success deletes an earlier error."""
    old_error = (
        JOBS.c.error if state in _KEEPS_ERROR else case((JOBS.c.end_ns.is_not(None), JOBS.c.error))
    )
    return func.coalesce(_STEP.c.error, old_error)


def _explanation(state: JobState) -> Mapping[str, Any]:
    """Return the new columns that explain why the job waits; a new state deletes the old text."""
    if state is not JobState.QUEUED:
        stays = JOBS.c.state == state.value
        return {"explanation": case((stays, JOBS.c.explanation), else_=null())}
    was_refused = _STEP.c.refused.is_not(None)
    is_held = _STEP.c.held.is_not(None)
    return {
        "explanation": func.coalesce(_STEP.c.held, _STEP.c.refused),
        "refused_ns": case((was_refused, _NOW), else_=JOBS.c.refused_ns),
        "refusals": case(
            (is_held, HELD), (was_refused, JOBS.c.refusals + 1), else_=JOBS.c.refusals
        ),
    }


_OPENING: Final = (JobState.PREPARING, JobState.ENQUEUED)
STATEMENTS: Final = {
    (state, opens): _statement(state, opens=opens)
    for state in JobState
    for opens in ((False, True) if state in _OPENING else (False,))
}


class Steps:
    """The only writes that change the state of jobs."""

    _db: Database

    def apply(self, steps: Sequence[Step]) -> Sequence[bool]:
        """Apply steps in one transaction; return for each whether its row was unchanged.

        A step whose row has changed is not applied.
        """
        return self._db.write_with_others(_apply_all, steps, marked=True) if steps else ()


def _apply_all(tx: Transaction, calls: Sequence[Sequence[Step]]) -> Sequence[Sequence[bool]]:
    applied = iter(apply_in(tx, [step for steps in calls for step in steps]))
    return [[next(applied) for _ in steps] for steps in calls]


def apply_in(tx: Transaction, steps: Sequence[Step]) -> Sequence[bool]:
    """Apply steps in the transaction of a larger write; return for each whether it was applied.

    A step is applied if its row is unchanged and the lease of its server is valid.
    """
    servers = {step.server for step in steps if step.server is not None}
    live_servers = {None} | {server for server in servers if has_lease(tx, server)}
    additions = Additions()
    applied = [False] * len(steps)
    for state, opens, indexes in _groups(steps, live_servers):
        rows = _update(tx, state, [steps[index] for index in indexes], opens=opens)
        for index in indexes:
            row = rows.get(steps[index].uid)
            if row is not None:
                applied[index] = True
                additions.add(steps[index], row, tx.now_ns)
                tx.changes.append(_change(steps[index], row, tx.now_ns))
    additions.write(tx)
    return applied


def _change(step: Step, row: Row[Any], now_ns: int) -> CommittedChange:
    ends = row.end_ns == now_ns
    return CommittedChange(
        uid=row.uid,
        project=row.project,
        kind=row.kind,
        state=step.state,
        attempt=row.attempt,
        at_ns=now_ns,
        create_ns=row.create_ns,
        is_study=bool(row.is_study),
        placed=len(step.seats) if opens_attempt(step) else None,
        begins_running=row.running_since_ns == now_ns,
        ends=ends,
        has_run=row.start_ns is not None,
        ran_ns=row.ran_ns,
        error=codec.ERROR.decode(row.error) if ends and row.error else None,
        charged=step.charged,
        notices=tuple(
            bool(event.data[NOTICE_HONOURED])
            for event in step.events
            if NOTICE_HONOURED in event.data
        ),
    )


def _groups(
    steps: Sequence[Step], live_servers: Collection[str | None]
) -> Iterator[tuple[JobState, bool, Sequence[int]]]:
    """Yield (state, opens an attempt, indexes of steps); a group has one step per job."""
    rounds: dict[tuple[int, JobState, bool], list[int]] = {}
    counts: Counter[int] = Counter()
    for index, step in enumerate(steps):
        if step.server in live_servers:
            rounds.setdefault((counts[step.uid], step.state, opens_attempt(step)), []).append(index)
            counts[step.uid] += 1
    for key in sorted(rounds, key=lambda key: key[0]):
        yield key[1], key[2], rounds[key]


def _update(
    tx: Transaction, state: JobState, steps: Sequence[Step], *, opens: bool
) -> Mapping[int, Row[Any]]:
    """Execute the UPDATE for steps into one state; return the changed rows by uid."""
    rows = [
        [
            step.uid,
            step.version,
            len(step.events),
            None if step.owner is None else codec.plain(step.owner),
            None if step.error is None else codec.ERROR.encode(step.error),
            JobState.QUEUED.value,
            None if step.restarts is None else codec.RESTARTS.encode(step.restarts),
            times.most_ns(step.ran_s_max),
            None if step.refused is None else codec.EXPLANATION.encode(step.refused),
            None if step.held is None else codec.EXPLANATION.encode(step.held),
            int(bool(step.placed)),
        ]
        for step in steps
    ]
    parameters = {"steps": json.dumps(rows), "now_ns": tx.now_ns, "mark": tx.mark}
    return {row.uid: row for row in tx.connection.execute(STATEMENTS[state, opens], parameters)}
