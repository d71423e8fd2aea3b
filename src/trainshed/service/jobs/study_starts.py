"""What a new study has before its first trial: which known results it uses, and its first points.

Results come with the call, from other studies of the project, or from the study that the label
``trainshed-warm-start`` names, which gcloud and the SDKs can set.  They are matched once, at the
submission, and stored with the study: later trials or a deletion of the other study change nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from trainshed.model.faults import Violation
from trainshed.model.job import JobSpec
from trainshed.model.labels import WARM_START_LABEL
from trainshed.model.refusals import Refusal
from trainshed.model.study_start import (
    FIRST_POINTS,
    KNOWN_RESULTS,
    NO_START,
    RESULTS_MAX,
    ResultRow,
    StartCall,
)
from trainshed.model.trials import TrialRecord, TrialState
from trainshed.service.jobs.job_lookup import find_job
from trainshed.service.jobs.refusing import invalid
from trainshed.service.jobs.start_matching import (
    LABEL_FIELD,
    REASONS_MAX,
    STUDIES_FIELD,
    BuiltStart,
    match_start,
    wrong_results,
)
from trainshed.service.jobs.study_answers import StudyStartReport
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.steps import NewEvent

_A_STUDY: Final = "the id or number of a tuning job of this project"


def build_start(
    store: Store, project: str, spec: JobSpec, call: StartCall = NO_START
) -> BuiltStart | None:
    """Match what a caller gives with a new job, and its label; None if there is nothing.

    Raises Refusal: INVALID_ARGUMENT, with every violation.
    """
    label = (spec.labels or {}).get(WARM_START_LABEL)
    if call == NO_START and not label:
        return None
    named = {LABEL_FIELD: label} if label else {}
    named |= {f"{STUDIES_FIELD}[{at}]": one for at, one in enumerate(call.studies)}
    records, violations = _find_studies(store, project, named) if spec.study else ([], [])
    built = match_start(spec.study, _add_studies(store, call, records))
    violations += built if isinstance(built, list) else []
    if violations or isinstance(built, list):
        raise invalid(violations)
    return built


def _add_studies(store: Store, call: StartCall, records: Sequence[JobRecord]) -> StartCall:
    """Return the call with the results of studies; ``studies`` has their ids, once each."""
    rows = [row for record in records for row in _read_results(store, record)]
    ids = tuple(record.job.job_id for record in records)
    return replace(
        call,
        results=(*call.results, *rows),
        sources=(*call.sources, *(f"study {job_id}" for job_id in ids)),
        studies=ids or call.studies,
    )


def _find_studies(
    store: Store, project: str, named: Mapping[str, str]
) -> tuple[list[JobRecord], list[Violation]]:
    """Return the studies of ids by field, each once, and the violations of other ids."""
    records: dict[int, JobRecord] = {}
    violations = []
    for field, job_id in named.items():
        try:
            record = find_job(store, project, job_id).record
        except Refusal as refusal:
            violations.append(wrong_results(field, refusal.message, _A_STUDY))
            continue
        if record.job.spec.is_study:
            records[record.uid] = record
        else:
            violations.append(wrong_results(field, f"job {job_id} is not a tuning job", _A_STUDY))
    return list(records.values()), violations


def _read_results(store: Store, record: JobRecord) -> Iterator[ResultRow]:
    """Yield the newest ended trials of a study, over or running; its known results are not."""
    for stored in store.newest_trials(record.uid, limit=RESULTS_MAX, with_reports=False):
        if stored.trial.state.is_final:
            yield _row_of(record.job.job_id, stored.trial)


def _row_of(study_id: str, trial: TrialRecord) -> ResultRow:
    is_result = trial.state is TrialState.SUCCEEDED and trial.final is not None
    return ResultRow(
        name=f"trial {trial.number} of study {study_id}",
        parameters=dict(trial.values),
        metrics=dict(trial.final.metrics) if trial.final else {},
        fault="" if is_result else "the trial has no result",
    )


def make_events(report: StudyStartReport) -> Iterator[NewEvent]:
    """Yield the events of a study's story about its start."""
    if report.message:
        severity = {} if report.results else {"severity": "WARNING"}
        reasons = {one.reason: one.count for one in report.reasons}
        data = {"taken": report.results, "ignored": report.ignored, "reasons": reasons}
        data |= {"left_out": list(report.left_out)[:REASONS_MAX]}
        yield NewEvent(kind=KNOWN_RESULTS, message=report.message, data={**data, **severity})
    if report.first_points or report.first_points_known:
        data = {"points": report.first_points, "known": report.first_points_known}
        yield NewEvent(kind=FIRST_POINTS, message=_describe_points(report), data=data)


def _describe_points(report: StudyStartReport) -> str:
    are = "point is" if report.first_points == 1 else "points are"
    text = f"{report.first_points} first {are} tried before the search."
    if tried := report.first_points_known:
        are = "more is" if tried == 1 else "more are"
        text += f" {tried} {are} not tried again: known results have the same values."
    return text
