"""Reads studies and their trials for the study loop, and writes its steps."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import BigInteger, Connection, Integer, TextClause, bindparam, select, text, update

from trainshed.model.status import JobState
from trainshed.model.study_start import StudyStart
from trainshed.model.trials import Values
from trainshed.store import codec
from trainshed.store import study_rows as rows
from trainshed.store.adding import Addition, UidTaken, add_all, prepare
from trainshed.store.base import AlreadyThere
from trainshed.store.bulk import add_rows, given
from trainshed.store.database import Database
from trainshed.store.records.steps import Step
from trainshed.store.records.studies import (
    OpenStudy,
    StoredTrial,
    StudyStep,
    TrialJob,
    TrialResult,
)
from trainshed.store.steps import apply_in
from trainshed.store.tables import JOBS, REPORTS, TRIALS
from trainshed.store.writer import Transaction

#: The most results of one read.
RESULTS_PAGE: Final = 10_000
JOBS_OF_STUDY: Final = (
    select(TRIALS.c.number, TRIALS.c.job_uid, JOBS.c.end_ns)
    .join(JOBS, JOBS.c.uid == TRIALS.c.job_uid)
    .where(TRIALS.c.uid == bindparam("of_uid"))
    .order_by(TRIALS.c.number)
)
#: A study starts with its first trial, which may have ended before the study loop sees it.
BEGIN_STUDY: Final = (
    update(JOBS)
    .where(JOBS.c.uid == bindparam("of_uid"))
    .values(start_ns=bindparam("began_ns", type_=BigInteger))
)
_NUMBERS = given("wanted", uid=BigInteger, number=Integer)
TAKEN: Final = select(TRIALS.c.number).join(
    _NUMBERS, (_NUMBERS.c.uid == TRIALS.c.uid) & (_NUMBERS.c.number == TRIALS.c.number)
)


def open_studies(dialect: str) -> TextClause:
    """Return the query of all studies that have not ended, the oldest first."""
    return text(f"""
        SELECT uid, state, version FROM jobs {rows.open_studies_hint(dialect)}
        WHERE is_study = 1 AND end_ns IS NULL ORDER BY create_ns, uid
    """)  # noqa: S608 - the hint is a constant


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    step: StudyStep
    jobs: Sequence[Addition]
    """The jobs of the new trials."""


class StoredStudies:
    """Reads and writes studies for the study loop."""

    _db: Database

    def open_studies(self) -> Sequence[OpenStudy]:
        """Return all studies that have not ended, the oldest first; cheap."""
        studies = self._db.read(
            lambda connection: connection.execute(open_studies(connection.dialect.name)).all()
        )
        return [OpenStudy(uid=r.uid, state=JobState(r.state), version=r.version) for r in studies]

    def trials(self, uid: int) -> Sequence[StoredTrial]:
        """Return the trials of a study by number, with their reports and the state of their jobs.

        Reports are read after the trials, so they may be newer than a trial's mark, never older.
        """

        def query(connection: Connection) -> tuple[Sequence[Any], Sequence[Any]]:
            key = {"of_uid": uid}
            trials = connection.execute(rows.TRIALS_OF_STUDY, key).all()
            return trials, connection.execute(rows.REPORTS_OF_STUDY, key).all() if trials else ()

        trials, reports = self._db.read(query)
        contents = _group_reports(reports)
        return [rows.stored_trial(row, contents[row.number]) for row in trials]

    def trials_after(self, uid: int, *, after: int, limit: int) -> Sequence[StoredTrial]:
        """Return at most ``limit`` trials of a study with numbers above ``after``, by number.

        Only trials without a final measurement have their reports.
        """

        def query(connection: Connection) -> Sequence[StoredTrial]:
            parameters = {"of_uid": uid, "after": after, "most": limit}
            trials = connection.execute(rows.TRIALS_AFTER, parameters).all()
            lacking = [row.number for row in trials if row.final is None]
            contents = _reports_of(connection, uid, lacking)
            return [rows.stored_trial(row, contents[row.number]) for row in trials]

        return self._db.read(query)

    def newest_trials(
        self, uid: int, *, limit: int, with_reports: bool = True
    ) -> Sequence[StoredTrial]:
        """Return the ``limit`` trials of a study with the highest numbers, by number."""

        def query(connection: Connection) -> Sequence[StoredTrial]:
            trials = connection.execute(rows.NEWEST_TRIALS, {"of_uid": uid, "most": limit}).all()
            numbers = [row.number for row in trials] if with_reports else []
            contents = _reports_of(connection, uid, numbers)
            return [rows.stored_trial(row, contents[row.number]) for row in reversed(trials)]

        return self._db.read(query)

    def trial_results(self, uid: int) -> Sequence[TrialResult]:
        """Return the results of all trials of a study by number; cheaper than the trials.

        They are read in pages, so that no read of the database is long.
        """
        results: list[TrialResult] = []
        while True:
            last = results[-1].trial.number if results else 0
            page = self._db.rows(rows.RESULTS_OF_STUDY, of_uid=uid, after=last, most=RESULTS_PAGE)
            results += map(rows.trial_result, page)
            if len(page) < RESULTS_PAGE:
                return results

    def trial_jobs(self, uid: int) -> Sequence[TrialJob]:
        """Return the jobs of a study's trials by number, without their reports; cheap."""
        return [
            TrialJob(number=number, job_uid=job_uid, end_time=codec.to_time_or_none(end_ns))
            for number, job_uid, end_ns in self._db.rows(JOBS_OF_STUDY, of_uid=uid)
        ]

    def study_start(self, uid: int) -> StudyStart:
        """Return what a study has before its first trial; it never changes."""
        row = self._db.row(rows.START_OF_STUDY, of_uid=uid)
        if row is None:
            return StudyStart()
        results = codec.KNOWN_RESULTS.decode(row.results)
        return StudyStart(results=results, points=codec.POINTS.decode(row.points))

    def first_points(self, uid: int) -> tuple[Values, ...]:
        """Return the points to try before the search; cheap if there are none."""
        row = self._db.row(rows.FIRST_POINTS_OF_STUDY, of_uid=uid)
        return () if row is None else codec.POINTS.decode(row.points)

    def count_start(self, uid: int) -> tuple[int, int]:
        """Return the numbers of known results and of first points of a study; cheap."""
        row = self._db.row(rows.START_COUNTS, of_uid=uid)
        return (0, 0) if row is None else (row.result_count, row.point_count)

    def apply_study(self, step: StudyStep) -> bool:
        """Apply a step; return False and write nothing if the study has changed since.

        Raises AlreadyThere for a new trial or trial job that exists, KeyError for a trial that
        does not exist.  Then nothing is written.
        """
        if step.state is JobState.QUEUED:
            raise ValueError("the state of a study must not be QUEUED: studies are never placed")
        if step.new_trials:
            self._db.check_room()
        while True:
            jobs = [prepare(new.job, self._db.new_uid()) for new in step.new_trials]
            prepared = _Prepared(step=step, jobs=jobs)
            try:
                return self._db.write_with_others(_apply_all, prepared, marked=True)
            except UidTaken:
                continue


def _reports_of(
    connection: Connection, uid: int, numbers: Sequence[int]
) -> Mapping[int, Sequence[str]]:
    """Return the contents of the reports of some trials by number, in order."""
    if not numbers:
        return defaultdict(list)
    wanted = {"of_uid": uid, "wanted": json.dumps([[number] for number in numbers])}
    return _group_reports(connection.execute(rows.REPORTS_OF_TRIALS, wanted).all())


def _group_reports(reports: Sequence[Any]) -> Mapping[int, Sequence[str]]:
    contents: Mapping[int, list[str]] = defaultdict(list)
    for number, content in reports:
        contents[number].append(content)
    return contents


def _apply_all(tx: Transaction, prepared: Sequence[_Prepared]) -> Sequence[bool]:
    """Apply all changes.  Raises for an invalid one, and the writer rolls all of them back."""
    return [_apply(tx, change) for change in prepared]


def _apply(tx: Transaction, prepared: _Prepared) -> bool:
    """Apply one step; False if the study has changed.  Raises AlreadyThere, KeyError."""
    step = prepared.step
    if not apply_in(tx, [_step_of_job(step)])[0]:
        return False
    tx.changes[-1] = tx.changes[-1]._replace(trials=_ended_trials(step))
    _add_trials(tx, prepared)  # the update above locks the study's row
    if step.start_time is not None:
        began = {"of_uid": step.uid, "began_ns": codec.to_ns(step.start_time)}
        tx.connection.execute(BEGIN_STUDY, began)
    changed = [rows.changed_row(step.uid, trial) for trial in step.trials]
    marked = [[step.uid, report.number, *report.mark] for report in step.reports]
    for statement, key, table_rows in (
        (rows.CHANGE_TRIALS, "changed", changed),
        (rows.MARK_TRIALS, "marked", marked),
    ):
        if table_rows:
            written = (
                tx.connection.execute(statement, {key: json.dumps(table_rows)}).scalars().all()
            )
            _check_known({row[1] for row in table_rows}, written)
    report_rows = [rows.report_row(step.uid, report) for report in step.reports if report.reports]
    add_rows(tx, REPORTS, report_rows)
    return True


def _ended_trials(step: StudyStep) -> tuple[tuple[str, bool], ...]:
    return tuple(
        (trial.state.value, trial.stopped_early) for trial in step.trials if trial.state.is_final
    )


def _step_of_job(step: StudyStep) -> Step:
    return Step(
        uid=step.uid,
        version=step.version,
        state=step.state,
        error=step.error,
        events=step.events,
        server=step.server,
    )


def _add_trials(tx: Transaction, prepared: _Prepared) -> None:
    """Add new trials and their jobs.  Raises AlreadyThere."""
    new = prepared.step.new_trials
    if not new:
        return
    uid = prepared.step.uid
    numbers = json.dumps([[uid, new_trial.trial.number] for new_trial in new])
    for number in tx.connection.execute(TAKEN, {"wanted": numbers}).scalars():
        raise AlreadyThere(f"trial {number}")
    for outcome in add_all(tx, prepared.jobs):
        if isinstance(outcome, AlreadyThere):
            raise outcome
    pairs = zip(new, prepared.jobs, strict=True)
    add_rows(
        tx,
        TRIALS,
        [
            rows.trial_row(uid, new_trial.trial, job.uid, job.job["job_id"])
            for new_trial, job in pairs
        ],
    )


def _check_known(numbers: Collection[int], written: Collection[int]) -> None:
    """Raise KeyError for the first number that was not written."""
    for number in sorted(set(numbers) - set(written)):
        raise KeyError(number)
