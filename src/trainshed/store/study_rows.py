"""Converts trials and reports to rows and back without loss: NaN, infinity and all texts."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import BigInteger, Integer, Row, Select, Text, bindparam, func, select, update

from trainshed.model.attempt import Report
from trainshed.model.status import JobState
from trainshed.model.study_start import StudyStart
from trainshed.model.trials import TrialRecord, TrialState, Values
from trainshed.store import codec
from trainshed.store.bulk import given
from trainshed.store.front import HELD
from trainshed.store.records.jobs import JobKind
from trainshed.store.records.studies import StoredTrial, TrialReports, TrialResult
from trainshed.store.tables import JOBS, REPORTS, STUDY_STARTS, TRIALS
from trainshed.store.writer import Transaction

#: Cached texts: the study loop rereads unchanged rows, such as 1,000 trials with 20 rows each.
_CONTENTS_MAX: Final = 1 << 15

#: The end state of a trial's job, derived from the trial, for jobs that were deleted.
STATE_OF_FORGOTTEN: Final[Mapping[TrialState, JobState]] = {
    TrialState.REQUESTED: JobState.FAILED,
    TrialState.ACTIVE: JobState.FAILED,
    TrialState.PAUSED: JobState.FAILED,
    TrialState.STOPPING: JobState.FAILED,
    TrialState.SUCCEEDED: JobState.SUCCEEDED,
    TrialState.INFEASIBLE: JobState.FAILED,
}

_TRIALS: Final[Select[Any]] = (
    select(
        TRIALS,
        JOBS.c.state.label("job_state"),
        JOBS.c.attempt.label("job_attempt"),
        JOBS.c.error.label("job_error"),
        JOBS.c.refusals.label("job_refusals"),
        JOBS.c.start_ns.label("job_start_ns"),
        JOBS.c.end_ns.label("job_end_ns"),
    )
    .select_from(TRIALS)
    .join(JOBS, JOBS.c.uid == TRIALS.c.job_uid, isouter=True)
    .where(TRIALS.c.uid == bindparam("of_uid"))
)
TRIALS_OF_STUDY: Final = _TRIALS.order_by(TRIALS.c.number)
TRIALS_AFTER: Final = (
    _TRIALS.where(TRIALS.c.number > bindparam("after"))
    .order_by(TRIALS.c.number)
    .limit(bindparam("most"))
)
NEWEST_TRIALS: Final = _TRIALS.order_by(TRIALS.c.number.desc()).limit(bindparam("most"))
RESULTS_OF_STUDY: Final = (
    select(
        TRIALS.c.number,
        TRIALS.c.state,
        TRIALS.c.final,
        TRIALS.c.stopped_early,
        TRIALS.c.job_uid,
        TRIALS.c.start_ns,
        TRIALS.c.end_ns,
        JOBS.c.state.label("job_state"),
        JOBS.c.start_ns.label("job_start_ns"),
        JOBS.c.end_ns.label("job_end_ns"),
    )
    .select_from(TRIALS)
    .join(JOBS, JOBS.c.uid == TRIALS.c.job_uid, isouter=True)
    .where(TRIALS.c.uid == bindparam("of_uid"), TRIALS.c.number > bindparam("after"))
    .order_by(TRIALS.c.number)
    .limit(bindparam("most"))
)
REPORTS_OF_STUDY: Final = (
    select(REPORTS.c.number, REPORTS.c.content)
    .where(REPORTS.c.uid == bindparam("of_uid"))
    .order_by(REPORTS.c.number, REPORTS.c.seq)
)
_WANTED = given("wanted", number=Integer)
#: A subquery, not a join: SQLite would scan all reports of the study for each number of a join.
REPORTS_OF_TRIALS: Final = (
    select(REPORTS.c.number, REPORTS.c.content)
    .where(REPORTS.c.uid == bindparam("of_uid"), REPORTS.c.number.in_(select(_WANTED.c.number)))
    .order_by(REPORTS.c.number, REPORTS.c.seq)
)

_CHANGED = given(
    "changed",
    uid=BigInteger,
    number=Integer,
    state=Text,
    parameters=Text,
    final=Text,
    reason=Text,
    stopped_early=Integer,
    start_ns=BigInteger,
    end_ns=BigInteger,
    paused_at=BigInteger,
)
#: The columns of a trial that change.
_ENCODED: Final = (
    *("state", "parameters", "final", "reason"),
    *("stopped_early", "start_ns", "end_ns", "paused_at"),
)
CHANGE_TRIALS: Final = (
    update(TRIALS)
    .where(TRIALS.c.uid == _CHANGED.c.uid, TRIALS.c.number == _CHANGED.c.number)
    .values({name: _CHANGED.c[name] for name in _ENCODED})
    .returning(TRIALS.c.number)
)
_MARKED = given("marked", uid=BigInteger, number=Integer, mark_attempt=Integer, mark=BigInteger)
MARK_TRIALS: Final = (
    update(TRIALS)
    .where(TRIALS.c.uid == _MARKED.c.uid, TRIALS.c.number == _MARKED.c.number)
    .values(mark_attempt=_MARKED.c.mark_attempt, mark=_MARKED.c.mark)
    .returning(TRIALS.c.number)
)

#: The kind is a parameter, and there is no condition on ``deleted_ns``: with literals in the query
#: PostgreSQL might scan all jobs of an index.
_GONE = given("gone", uid=BigInteger, kind=Text)
#: Only ml v1 trials are hidden: the store makes the names of Vertex trials, and never reuses them.
HIDE_TRIALS: Final = (
    update(JOBS)
    .where(
        TRIALS.c.uid == _GONE.c.uid,
        JOBS.c.uid == TRIALS.c.job_uid,
        JOBS.c.kind == _GONE.c.kind,
    )
    .values(
        deleted_ns=func.coalesce(JOBS.c.deleted_ns, bindparam("now_ns", type_=BigInteger)),
        version=JOBS.c.version + 1,
    )
)


START_OF_STUDY: Final = select(STUDY_STARTS.c.results, STUDY_STARTS.c.points).where(
    STUDY_STARTS.c.uid == bindparam("of_uid")
)
FIRST_POINTS_OF_STUDY: Final = select(STUDY_STARTS.c.points).where(
    STUDY_STARTS.c.uid == bindparam("of_uid"), STUDY_STARTS.c.point_count > 0
)
START_COUNTS: Final = select(STUDY_STARTS.c.result_count, STUDY_STARTS.c.point_count).where(
    STUDY_STARTS.c.uid == bindparam("of_uid")
)


def start_row(uid: int, start: StudyStart) -> dict[str, Any]:
    """Return the row of what a study has before its first trial."""
    return {
        "uid": uid,
        "result_count": len(start.results),
        "point_count": len(start.points),
        "results": codec.KNOWN_RESULTS.encode(start.results),
        "points": codec.POINTS.encode(start.points),
    }


def open_studies_hint(dialect: str) -> str:
    """Return what follows ``FROM jobs`` in a query of studies that have not ended.

    SQLite alone would read the index of all jobs that have not ended.
    """
    return "INDEXED BY jobs_open_studies" if dialect == "sqlite" else ""


def hide_trials(tx: Transaction, studies: Sequence[int]) -> None:
    """Hide the jobs of the ml v1 trials of hidden studies, which frees their names."""
    hidden = json.dumps([[uid, JobKind.TRIAL.value] for uid in studies])
    tx.connection.execute(HIDE_TRIALS, {"gone": hidden, "now_ns": tx.now_ns})


def trial_row(uid: int, trial: TrialRecord, job_uid: int, job_id: str) -> dict[str, Any]:
    """Return the row of a new trial."""
    job = {"job_uid": job_uid, "job_id": job_id, "mark_attempt": 0, "mark": 0}
    return {"uid": uid, "number": trial.number, **_encode_trial(trial), **job}


def changed_row(uid: int, trial: TrialRecord) -> Sequence[Any]:
    """Return the row for ``CHANGE_TRIALS``."""
    return [uid, trial.number, *_encode_trial(trial).values()]


def report_row(uid: int, reports: TrialReports) -> dict[str, Any]:
    """Return the row with the reports of one trial since the last step."""
    content = json.dumps([[r.tag, r.value, r.step, r.elapsed_s] for r in reports.reports])
    return {"uid": uid, "number": reports.number, "content": content}


def stored_trial(row: Row[Any], contents: Sequence[str]) -> StoredTrial:
    """Convert a row of ``TRIALS_OF_STUDY``; ``contents`` are the trial's reports in order."""
    state = TrialState(row.state)
    return StoredTrial(
        trial=_trial(row, state),
        job_uid=row.job_uid,
        job_name=row.job_id,
        job_state=JobState(row.job_state) if row.job_state else STATE_OF_FORGOTTEN[state],
        job_attempt=row.job_attempt if row.job_state else row.mark_attempt,
        job_is_held=row.job_refusals == HELD,
        job_error=codec.ERROR.decode(row.job_error) if row.job_error else None,
        job_start_time=codec.to_time_or_none(row.job_start_ns if row.job_state else row.start_ns),
        job_end_time=codec.to_time_or_none(row.job_end_ns if row.job_state else row.end_ns),
        mark=(row.mark_attempt, row.mark),
        reports=tuple(report for content in contents for report in _reports(content)),
    )


def trial_result(row: Row[Any]) -> TrialResult:
    """Convert a row of ``RESULTS_OF_STUDY``."""
    state = TrialState(row.state)
    trial = TrialRecord(
        number=row.number,
        state=state,
        final=codec.MEASUREMENT.decode(row.final) if row.final else None,
        stopped_early=bool(row.stopped_early),
    )
    return TrialResult(
        trial=trial,
        job_uid=row.job_uid,
        job_state=JobState(row.job_state) if row.job_state else STATE_OF_FORGOTTEN[state],
        job_start_time=codec.to_time_or_none(row.job_start_ns if row.job_state else row.start_ns),
        job_end_time=codec.to_time_or_none(row.job_end_ns if row.job_state else row.end_ns),
    )


def _trial(row: Row[Any], state: TrialState) -> TrialRecord:
    return TrialRecord(
        number=row.number,
        state=state,
        values=_values(row.parameters),
        final=codec.MEASUREMENT.decode(row.final) if row.final else None,
        infeasible_reason=codec.TEXT.decode(row.reason) if row.reason else None,
        stopped_early=bool(row.stopped_early),
        paused_at=row.paused_at,
        start_time=codec.to_time_or_none(row.start_ns),
        end_time=codec.to_time_or_none(row.end_ns),
    )


def _encode_trial(trial: TrialRecord) -> dict[str, Any]:
    """Return the columns of a trial, in the order of ``_ENCODED``."""
    final, reason = trial.final, trial.infeasible_reason
    return {
        "state": trial.state.value,
        "parameters": codec.VALUES.encode(trial.values),
        "final": None if final is None else codec.MEASUREMENT.encode(final),
        "reason": None if reason is None else codec.TEXT.encode(reason),
        "stopped_early": int(trial.stopped_early),
        "start_ns": _ns(trial.start_time),
        "end_ns": _ns(trial.end_time),
        "paused_at": trial.paused_at,
    }


def _ns(time: datetime | None) -> int | None:
    return None if time is None else codec.to_ns(time)


@lru_cache(_CONTENTS_MAX)
def _reports(content: str) -> tuple[Report, ...]:
    return tuple(
        Report(tag=tag, value=value, step=step, elapsed_s=elapsed_s)
        for tag, value, step, elapsed_s in json.loads(content)
    )


@lru_cache(_CONTENTS_MAX)
def _values(text: str) -> Values:
    return codec.VALUES.decode(text)
