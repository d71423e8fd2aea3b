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
from trainshed.model.study import StudySpec
from trainshed.model.study_start import (
    FIRST_POINTS,
    KNOWN_RESULTS,
    NO_START,
    RESULTS_MAX,
    ResultRow,
    StartCall,
)
from trainshed.model.trials import TrialRecord, TrialState, Values
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
from trainshed.service.jobs.start_story import POINT_SOURCES, REPORT
from trainshed.service.jobs.study_answers import StudyStartReport
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.steps import NewEvent
from trainshed.wire.native_v1 import document

#: The most trials of a study that this one continues whose points are compared.
_TRIALS_MAX: Final = 100_000
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
    full_call = _add_studies(store, _name_only_source(call), records)
    tried = list_tried(store, spec.study) if call.points else ()
    built = match_start(spec.study, full_call, tried)
    violations += built if isinstance(built, list) else []
    if violations or isinstance(built, list):
        raise invalid(violations)
    return built


def _name_only_source(call: StartCall) -> StartCall:
    """Return the call with the only source in each result that names none."""
    if len(call.sources) != 1:
        return call
    [source] = call.sources
    return replace(call, results=tuple(replace(r, source=r.source or source) for r in call.results))


def list_tried(store: Store, study: StudySpec | None) -> Iterator[Values]:
    """Yield the values of all results of the studies that a study continues."""
    uid = study.resume_previous_uid if study else None
    while uid is not None:
        for stored in store.newest_trials(uid, limit=_TRIALS_MAX, with_reports=False):
            if stored.trial.state is TrialState.SUCCEEDED:
                yield stored.trial.values
        yield from (result.values for result in store.study_start(uid).results)
        record = store.job_by_uid(uid)
        earlier = record.job.spec.study if record else None
        uid = earlier.resume_previous_uid if earlier else None


def _add_studies(store: Store, call: StartCall, records: Sequence[JobRecord]) -> StartCall:
    """Return the call with the results of studies; ``studies`` has their ids, once each."""
    rows = [row for record in records for row in _read_results(store, record)]
    ids = tuple(record.job.job_id for record in records)
    names = map(_name_study, records)
    return replace(
        call,
        results=(*call.results, *rows),
        sources=(*call.sources, *names),
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
            yield _row_of(record, stored.trial)


def _name_study(record: JobRecord) -> str:
    """Name a study by its id; a study of Vertex has a number, and a name that users know."""
    job_id, title = record.job.job_id, record.job.spec.display_name
    return f"study {title} ({job_id})" if title and title != job_id else f"study {job_id}"


def _row_of(record: JobRecord, trial: TrialRecord) -> ResultRow:
    is_result = trial.state is TrialState.SUCCEEDED and trial.final is not None
    return ResultRow(
        name=f"trial {trial.number} of study {record.job.job_id}",
        parameters=dict(trial.values),
        metrics=dict(trial.final.metrics) if trial.final else {},
        fault="" if is_result else "the trial has no result",
        source=_name_study(record),
    )


def make_events(built: BuiltStart) -> Iterator[NewEvent]:
    """Yield the events of a study's story about its start; the first one has the report."""
    report = built.report
    whole = {REPORT: document(report)}
    if report.message:
        severity = {} if report.results else {"severity": "WARNING"}
        reasons = {one.reason: one.count for one in report.reasons}
        data = {"taken": report.results, "ignored": report.ignored, "reasons": reasons}
        data |= {"left_out": list(report.left_out)[:REASONS_MAX], **whole, **severity}
        yield NewEvent(kind=KNOWN_RESULTS, message=report.message, data=data)
        whole = {}
    if report.first_points or report.first_points_known:
        data = {"points": report.first_points, "known": report.first_points_known, **whole}
        data |= {POINT_SOURCES: list(built.point_sources)}
        yield NewEvent(kind=FIRST_POINTS, message=_describe_points(report), data=data)


def _describe_points(report: StudyStartReport) -> str:
    are = "point is" if report.first_points == 1 else "points are"
    text = f"{report.first_points} first {are} tried before the search."
    if tried := report.first_points_known:
        are = "more is" if tried == 1 else "more are"
        text += f" {tried} {are} not tried again: known results have the same values."
    return text
