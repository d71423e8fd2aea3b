"""What a new study has before its first trial: which known results it uses, and its first points.

Results come with the call, from other studies of the project, or from the study that the label
``trainshed-warm-start`` names, which gcloud and the SDKs can set.  They are matched once, at the
submission, and stored with the study: later trials or a deletion of the other study change nothing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from trainshed.model.faults import Violation
from trainshed.model.job import JobSpec
from trainshed.model.labels import WARM_START_LABEL
from trainshed.model.refusals import Refusal
from trainshed.model.study import StudySpec
from trainshed.model.study_start import (
    FIRST_POINTS,
    KNOWN_RESULTS,
    POINTS_MAX,
    RESULTS_MAX,
    IgnoredRow,
    PointRow,
    ResultRow,
    StudyStart,
)
from trainshed.model.trials import TrialRecord, TrialState, Values
from trainshed.service.jobs.job_lookup import find_job
from trainshed.service.jobs.refusing import invalid
from trainshed.service.jobs.study_answers import IgnoredResult, IgnoredResults, StudyStartReport
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.steps import NewEvent
from trainshed.tuning.first_points import check_points
from trainshed.tuning.known_results import MatchedResults, match_results

#: The names of the fields of a call.
RESULTS_FIELD: Final = "start.results"
STUDIES_FIELD: Final = "start.studies"
POINTS_FIELD: Final = "start.points"
_LABEL_FIELD: Final = f"labels.{WARM_START_LABEL}"
#: The reasons and the rows of a reason that an answer has, and the reasons in a sentence.
_REASONS_MAX: Final = 50
_ROWS_MAX: Final = 3
_SENTENCE_REASONS_MAX: Final = 4
_A_STUDY: Final = "the id or number of a tuning job of this project"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCall:
    """What a caller gives with a new study."""

    results: tuple[ResultRow, ...] = ()
    sources: tuple[str, ...] = ()
    """The names of the files of ``results``, for sentences."""
    studies: tuple[str, ...] = ()
    """The ids of studies of the project whose results are used."""
    points: tuple[PointRow, ...] = ()


NO_START: Final = StartCall()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltStart:
    """What is stored with a new study, and what is said about it."""

    start: StudyStart
    report: StudyStartReport

    @property
    def events(self) -> tuple[NewEvent, ...]:
        """The events of the study's story."""
        return tuple(_make_events(self.report))


def build_start(
    store: Store, project: str, spec: JobSpec, call: StartCall = NO_START
) -> BuiltStart | None:
    """Match what a caller gives with a new job, and its label; None if there is nothing.

    Raises Refusal: INVALID_ARGUMENT, with every violation.
    """
    label = (spec.labels or {}).get(WARM_START_LABEL)
    if call == NO_START and not label:
        return None
    if spec.study is None:
        raise invalid([_known(_field_of(call), "the job is not a tuning job", "a tuning job")])
    named = {_LABEL_FIELD: label} if label else {}
    named |= {f"{STUDIES_FIELD}[{at}]": one for at, one in enumerate(call.studies)}
    records, violations = _find_studies(store, project, named)
    points, point_violations = _check_points(spec.study, call.points)
    violations += [*point_violations, *_check_counts(call)]
    if violations:
        raise invalid(violations)
    rows = [*call.results, *(row for record in records for row in _read_results(store, record))]
    matched = match_results(spec.study, rows)
    sources = (*call.sources, *(f"study {record.job.job_id}" for record in records))
    report = _report(matched, sources, points)
    if call.results and not matched.taken and not records:
        accepted = "results with the study's metrics and values of its parameters"
        raise invalid([_known(RESULTS_FIELD, report.message, accepted)])
    return BuiltStart(start=StudyStart(results=matched.taken, points=points), report=report)


def _field_of(call: StartCall) -> str:
    fields = {RESULTS_FIELD: call.results, STUDIES_FIELD: call.studies, POINTS_FIELD: call.points}
    return next((field for field, value in fields.items() if value), _LABEL_FIELD)


def _known(field: str, message: str, accepted: str) -> Violation:
    return Violation(
        field=field, rule="study-known-results", message=message.rstrip("."), accepted=accepted
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
            violations.append(_known(field, refusal.message, _A_STUDY))
            continue
        if record.job.spec.is_study:
            records[record.uid] = record
        else:
            violations.append(_known(field, f"job {job_id} is not a tuning job", _A_STUDY))
    return list(records.values()), violations


def _check_counts(call: StartCall) -> Iterator[Violation]:
    if len(call.points) > POINTS_MAX:
        message = f"there are {len(call.points)} first points"
        yield _wrong_point(POINTS_FIELD, message, f"at most {POINTS_MAX}")


def _check_points(
    study: StudySpec, rows: Sequence[PointRow]
) -> tuple[tuple[Values, ...], list[Violation]]:
    points, faults = check_points(study, rows)
    violations = [
        _wrong_point(
            f"{POINTS_FIELD}[{fault.position}]{'.' if fault.parameter else ''}{fault.parameter}",
            f"first point {rows[fault.position].name}: {fault.message}",
            "a point of the study",
        )
        for fault in faults
    ]
    if not faults and len(points) > study.trial_count_max:
        message = f"there are {len(points)} first points, and the study has "
        message += f"{study.trial_count_max} trials"
        violations.append(_wrong_point(POINTS_FIELD, message, "at most as many as trials"))
    return points, violations


def _wrong_point(field: str, message: str, accepted: str) -> Violation:
    return Violation(field=field, rule="study-first-points", message=message, accepted=accepted)


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


def _report(
    matched: MatchedResults, sources: Sequence[str], points: Sequence[Values]
) -> StudyStartReport:
    reasons = list(_count_reasons(matched.ignored))
    return StudyStartReport(
        results=len(matched.taken),
        ignored=len(matched.ignored),
        reasons=reasons[:_REASONS_MAX],
        left_out=matched.left_out,
        first_points=len(points),
        message=_describe_results(matched, sources, reasons) if sources else "",
    )


def _count_reasons(ignored: Sequence[IgnoredRow]) -> Iterator[IgnoredResults]:
    """Yield each reason with its first rows, the most frequent reason first."""
    for reason, count in Counter(row.reason for row in ignored).most_common():
        rows = islice((row for row in ignored if row.reason == reason), _ROWS_MAX)
        examples = [IgnoredResult(name=row.name, value=row.value or None) for row in rows]
        yield IgnoredResults(reason=reason, count=count, examples=examples)


def _describe_results(
    matched: MatchedResults, sources: Sequence[str], reasons: Sequence[IgnoredResults]
) -> str:
    total = len(matched.taken) + len(matched.ignored)
    of_all = f"{len(matched.taken)} of {total}" if matched.ignored else str(len(matched.taken))
    plural = "" if total == 1 else "s"
    verb = "is" if len(matched.taken) == 1 else "are"
    text = f"{of_all} known result{plural} of {', '.join(sources)} {verb} used"
    if reasons:
        first = [f"{one.reason} ({one.count})" for one in reasons[:_SENTENCE_REASONS_MAX]]
        rest = len(reasons) - len(first)
        text += f"; ignored: {'; '.join([*first, *([f'{rest} more reasons'] if rest else [])])}"
    return f"{text}."


def _make_events(report: StudyStartReport) -> Iterator[NewEvent]:
    if report.message:
        severity = {} if report.results else {"severity": "WARNING"}
        reasons = {one.reason: one.count for one in report.reasons}
        data = {"taken": report.results, "ignored": report.ignored, "reasons": reasons}
        data |= {"left_out": list(report.left_out)[:_REASONS_MAX]}
        yield NewEvent(kind=KNOWN_RESULTS, message=report.message, data={**data, **severity})
    if report.first_points:
        are = "point is" if report.first_points == 1 else "points are"
        message = f"{report.first_points} first {are} tried before the search."
        yield NewEvent(kind=FIRST_POINTS, message=message, data={"points": report.first_points})
