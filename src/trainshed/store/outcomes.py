"""Stores scores of predictions, and the calibrations that the server learns from jobs.

The transaction that ends an attempt with reported steps adds a row for it.  The server that fills
the row writes the calibration in the same transaction, so that each attempt counts once.
"""

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from sqlalchemy import bindparam, delete, desc, exists, select, tuple_, update

from trainshed.model.step_times import STEPS
from trainshed.store import codec
from trainshed.store.database import Database
from trainshed.store.records.learned import (
    CalibrationHead,
    Learned,
    StoredCalibration,
    StoredOutcome,
)
from trainshed.store.records.steps import StoredEvent
from trainshed.store.rows import of_columns
from trainshed.store.story import add_event, stored_event
from trainshed.store.tables import CALIBRATIONS, EVENTS, OUTCOMES
from trainshed.store.upsert import insert
from trainshed.store.writer import Transaction

#: The number of newest rows that are kept of each project.
OUTCOMES_MAX: Final = 10_000
CALIBRATIONS_MAX: Final = 1_000

_UNSCORED: Final = (
    select(EVENTS)
    .join(OUTCOMES, (OUTCOMES.c.uid == EVENTS.c.uid) & (OUTCOMES.c.attempt == EVENTS.c.attempt))
    .where(OUTCOMES.c.content.is_(None), EVENTS.c.kind == STEPS)
    .order_by(OUTCOMES.c.create_ns)
    .limit(bindparam("most"))
)
_THIS: Final = (
    OUTCOMES.c.uid == bindparam("of_uid"),
    OUTCOMES.c.attempt == bindparam("of_attempt"),
)
_FILL: Final = (
    update(OUTCOMES)
    .where(*_THIS, OUTCOMES.c.content.is_(None))
    .values(content=bindparam("text"), project=bindparam("of_project"))
)
_EMPTY: Final = update(OUTCOMES).where(*_THIS).values(content=None)
_DROP: Final = delete(OUTCOMES).where(*_THIS)
_LEARN: Final = (
    update(CALIBRATIONS)
    .where(
        CALIBRATIONS.c.project == bindparam("of_project"),
        CALIBRATIONS.c.key == bindparam("of_key"),
        CALIBRATIONS.c.jobs == bindparam("before"),
    )
    .values(document=bindparam("text"), jobs=bindparam("after"), update_ns=bindparam("at_ns"))
)
_HEADS: Final = select(*(CALIBRATIONS.c[field.name] for field in fields(CalibrationHead)))
_ONE: Final = select(CALIBRATIONS).where(
    CALIBRATIONS.c.project == bindparam("of_project"), CALIBRATIONS.c.key == bindparam("of_key")
)
_BEGIN: Final = insert(CALIBRATIONS).on_conflict_do_nothing().returning(CALIBRATIONS.c.key)
_NEWEST: Final = (
    select(CALIBRATIONS)
    .where(
        CALIBRATIONS.c.project == bindparam("of_project"),
        CALIBRATIONS.c.key >= bindparam("least"),
        CALIBRATIONS.c.key < bindparam("most"),
    )
    .order_by(CALIBRATIONS.c.update_ns.desc())
    .limit(1)
)
_TEXTS: Final = ("document", "model", "machine_type", "accelerator")
_AGE: Final = (OUTCOMES.c.create_ns, OUTCOMES.c.uid, OUTCOMES.c.attempt)
#: The content for an attempt without a prediction.
_NONE: Final = "{}"
_OUTCOME: Final = (
    select(OUTCOMES.c.content)
    .where(OUTCOMES.c.uid == bindparam("of_uid"), OUTCOMES.c.content != _NONE)
    .order_by(OUTCOMES.c.attempt.desc())
    .limit(1)
)
_IS_PENDING: Final = select(
    exists().where(OUTCOMES.c.uid == bindparam("of_uid"), OUTCOMES.c.content.is_(None))
)


class Outcomes:
    _db: Database

    def unscored(self, limit: int) -> Sequence[tuple[int, StoredEvent]]:
        """Return (uid, event with step times) of attempts without a score, the oldest first."""
        return [(row.uid, stored_event(row)) for row in self._db.rows(_UNSCORED, most=limit)]

    def calibration(self, project: str, key: str) -> StoredCalibration | None:
        """Return the calibration of a trainer on a kind of machine; None if there is none."""
        row = self._db.row(_ONE, of_project=codec.plain(project), of_key=codec.plain(key))
        return None if row is None else of_columns(StoredCalibration, row)

    def calibration_of(self, project: str, trainer: str) -> StoredCalibration | None:
        """Return a trainer's newest calibration for any model; None if there is none.

        ``trainer`` is the key that ``job_runs.trainer_key`` makes.
        """
        within = {
            "least": f"{trainer}-",
            "most": f"{trainer}-g",
        }  # the rest is hexadecimal
        row = self._db.row(_NEWEST, of_project=codec.plain(project), **within)
        return None if row is None else of_columns(StoredCalibration, row)

    def learn(self, uid: int, attempt: int, learned: Learned) -> bool:
        """Store an attempt's score and the calibration; False if another server has done it."""
        return self._db.write(lambda tx: _learn(tx, (uid, attempt), learned))

    def learn_nothing(self, uid: int, attempt: int) -> None:
        """Delete the row of an attempt that cannot be compared with others."""
        self._db.put(_DROP, of_uid=uid, of_attempt=attempt)

    def outcome(self, uid: int) -> dict[str, Any] | None:
        """Return the score of the prediction of a job's newest attempt; None without one."""
        contents = self._db.column(_OUTCOME, of_uid=uid)
        return json.loads(contents[0]) if contents else None

    def is_unscored(self, uid: int) -> bool:
        """Whether an ended attempt of a job waits for its score, as ``unscored`` lists them."""
        return bool(self._db.column(_IS_PENDING, of_uid=uid)[0])

    def outcomes(
        self, project: str, limit: int, after: tuple[int, int, int] | None = None
    ) -> Sequence[StoredOutcome]:
        """Return at most ``limit`` scores, the newest first.

        ``after`` is ``StoredOutcome.place`` of the last score of the previous page.
        """
        of_project = OUTCOMES.c.project == codec.plain(project)
        query = select(OUTCOMES).where(of_project, OUTCOMES.c.content != _NONE)
        if after is not None:
            query = query.where(tuple_(*_AGE) < tuple_(*after))
        rows = self._db.rows(query.order_by(*map(desc, _AGE)).limit(limit))
        return [of_columns(StoredOutcome, row, content=json.loads(row.content)) for row in rows]

    def calibrations(self, project: str, limit: int) -> Sequence[CalibrationHead]:
        """Return at most ``limit`` calibrations of a project, the last updated first."""
        query = (
            _HEADS.where(CALIBRATIONS.c.project == codec.plain(project))
            .order_by(CALIBRATIONS.c.update_ns.desc(), CALIBRATIONS.c.key)
            .limit(limit)
        )
        return [of_columns(CalibrationHead, row) for row in self._db.rows(query)]


def _learn(tx: Transaction, attempt: tuple[int, int], learned: Learned) -> bool:
    """Store a score, its calibration and its event; False if another server was first."""
    key = {"of_uid": attempt[0], "of_attempt": attempt[1]}
    text = json.dumps(dict(learned.content))
    filled = {**key, "text": text, "of_project": learned.project}
    if not tx.connection.execute(_FILL, filled).rowcount:
        return False
    if not _write(tx, learned):
        tx.connection.execute(_EMPTY, key)
        return False
    if learned.event is not None:
        add_event(tx, attempt[0], learned.event)
    _shorten(tx, learned.project)
    return True


def _write(tx: Transaction, learned: Learned) -> int:
    """Insert or update a calibration; return 0 if another server has changed it, else 1.

    Model and machine are inserted only: a key has only one of each.
    """
    if learned.jobs:
        changed = {
            "of_project": learned.project,
            "of_key": learned.key,
            "before": learned.jobs,
            "after": learned.jobs + 1,
            "text": codec.plain(learned.document),
            "at_ns": tx.now_ns,
        }
        return tx.connection.execute(_LEARN, changed).rowcount
    texts = {name: codec.plain(getattr(learned, name)) for name in _TEXTS}
    row = {"project": learned.project, "key": learned.key, "jobs": 1, "update_ns": tx.now_ns}
    return len(tx.connection.execute(_BEGIN, {**row, **texts}).all())


def _shorten(tx: Transaction, project: str) -> None:
    """Delete a project's oldest outcomes and calibrations above the limits."""
    for table, age, most in (
        (OUTCOMES, OUTCOMES.c.create_ns, OUTCOMES_MAX),
        (CALIBRATIONS, CALIBRATIONS.c.update_ns, CALIBRATIONS_MAX),
    ):
        of_project = table.c.project == project
        newest = select(age).where(of_project).order_by(age.desc()).offset(most).limit(1)
        for oldest in tx.connection.execute(newest).scalars().all():
            tx.connection.execute(delete(table).where(of_project, age <= oldest))
