"""Matches known results and first points with a study, and reports what it uses.

Needs no store, so that ``validate`` can check files on a machine without a server.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from trainshed.model.faults import Violation
from trainshed.model.labels import WARM_START_LABEL
from trainshed.model.study import StudySpec
from trainshed.model.study_start import (
    POINTS_MAX,
    IgnoredRow,
    PointRow,
    ResultRow,
    SourceCount,
    StartCall,
    StudyStart,
)
from trainshed.model.trials import Values, format_count
from trainshed.service.jobs.study_answers import (
    IgnoredResult,
    IgnoredResults,
    KnownSource,
    StudyStartReport,
)
from trainshed.tuning.first_points import check_points, points_of_trials
from trainshed.tuning.known_results import MatchedResults, match_results, shorten
from trainshed.tuning.space import space_of

#: The names of the fields of a call.
RESULTS_FIELD: Final = "start.results"
STUDIES_FIELD: Final = "start.studies"
POINTS_FIELD: Final = "start.points"
LABEL_FIELD: Final = f"labels.{WARM_START_LABEL}"
#: The reasons and the rows of a reason that an answer has; the reasons and sources in a sentence.
REASONS_MAX: Final = 50
_ROWS_MAX: Final = 3
#: The names of a result that a refusal lists.
_NAMES_MAX: Final = 12
_SENTENCE_REASONS_MAX: Final = 4
_SENTENCE_SOURCES_MAX: Final = 8
#: The most characters of the name of a source.
_SOURCE_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltStart:
    """What is stored with a new study, and what is said about it."""

    start: StudyStart
    report: StudyStartReport
    point_sources: tuple[str, ...] = ()
    """The place in a file of each first point; empty for a point that no file has."""


def match_start(
    study: StudySpec | None, call: StartCall, tried: Iterable[Values] = ()
) -> BuiltStart | list[Violation]:
    """Match results and points with an admitted study; ``study`` is None for other jobs.

    Studies are left out.  ``tried`` are the values of the results of a study that this one
    continues.  Return the violations if there are any.
    """
    if study is None:
        return [wrong_results(_field_of(call), "the job is not a tuning job", "a tuning job")]
    points, violations = _check_points(study, call.points)
    matched = match_results(study, call.results)
    used_values = {result.values for result in matched.taken}
    if points:
        used_values.update(points_of_trials(space_of(study), tried))
    report = _report(matched, call.sources, points, used_values)
    if matched.ignored and not matched.taken and not call.studies:
        metrics = ", ".join(metric.metric_id for metric in study.metrics)
        message = f"{report.message.rstrip('.')}; {_describe_names(call.results[0])}"
        accepted = f"results with {metrics} and values of the study's parameters"
        violations.append(wrong_results(RESULTS_FIELD, message, accepted))
    if violations:
        return violations
    return BuiltStart(
        start=StudyStart(results=matched.taken, points=points),
        report=report,
        point_sources=tuple(row.source[:_SOURCE_CHARS_MAX] for row in call.points),
    )


def _describe_names(row: ResultRow) -> str:
    """Describe the names that a result has, so that the caller notices a misspelled one."""
    names = list(dict.fromkeys(chain(row.parameters, row.metrics, row.cells)))
    rest = len(names) - _NAMES_MAX
    listed = ", ".join(map(shorten, names[:_NAMES_MAX])) or "no names"
    return f"the first one has {listed}{f' and {rest} more' if rest > 0 else ''}"


def _field_of(call: StartCall) -> str:
    fields = {RESULTS_FIELD: call.results, STUDIES_FIELD: call.studies, POINTS_FIELD: call.points}
    return next((field for field, value in fields.items() if value), LABEL_FIELD)


def wrong_results(field: str, message: str, accepted: str) -> Violation:
    return Violation(
        field=field, rule="study-known-results", message=message.rstrip("."), accepted=accepted
    )


def _check_points(
    study: StudySpec, rows: Sequence[PointRow]
) -> tuple[tuple[Values, ...], list[Violation]]:
    if len(rows) > POINTS_MAX:
        message = f"there are {len(rows)} first points"
        return (), [_wrong_point(POINTS_FIELD, message, f"at most {POINTS_MAX}")]
    points, faults = check_points(study, rows)
    violations = [
        _wrong_point(
            f"{POINTS_FIELD}[{fault.position}]{'.' if fault.parameter else ''}{fault.parameter}",
            fault.message,
            "",
        )
        for fault in faults
    ]
    if not faults and len(points) > study.trial_count_max:
        trials = format_count(study.trial_count_max)
        message = f"there are {len(points)} first points, and the study has {trials}"
        violations.append(_wrong_point(POINTS_FIELD, message, "at most as many as trials"))
    return points, violations


def _wrong_point(field: str, message: str, accepted: str) -> Violation:
    return Violation(field=field, rule="study-first-points", message=message, accepted=accepted)


def _report(
    matched: MatchedResults,
    sources: Sequence[str],
    points: Sequence[Values],
    used_values: Collection[Values],
) -> StudyStartReport:
    reasons = list(_count_reasons(matched.ignored))
    tried = sum(point in used_values for point in points)
    return StudyStartReport(
        results=len(matched.taken),
        ignored=len(matched.ignored),
        reasons=reasons[:REASONS_MAX],
        left_out=matched.left_out,
        first_points=len(points) - tried,
        first_points_known=tried,
        sources=list(_list_counts(matched.sources, sources)),
        message=_describe_results(matched, sources, reasons),
    )


def _list_counts(counts: Sequence[SourceCount], sources: Sequence[str]) -> Iterator[KnownSource]:
    """Yield the sources with results, and then those without."""
    by_name = {count.name: count for count in counts}
    for name in dict.fromkeys((*by_name, *sources)):
        count = by_name.get(name, SourceCount(name=name))
        yield KnownSource(name=name[:_SOURCE_CHARS_MAX], used=count.used, ignored=count.ignored)


def _count_reasons(ignored: Sequence[IgnoredRow]) -> Iterator[IgnoredResults]:
    """Yield each reason with its first rows, the most frequent reason first."""
    rows_of: dict[str, list[IgnoredRow]] = {}
    for row in ignored:
        rows_of.setdefault(row.reason, []).append(row)
    for reason, rows in sorted(rows_of.items(), key=lambda pair: -len(pair[1])):
        examples = [IgnoredResult(name=r.name, value=r.value or None) for r in rows[:_ROWS_MAX]]
        yield IgnoredResults(reason=reason, count=len(rows), examples=examples)


def _describe_results(
    matched: MatchedResults, sources: Sequence[str], reasons: Sequence[IgnoredResults]
) -> str:
    """Describe the results in one sentence; empty if none were given and no study was named."""
    total = len(matched.taken) + len(matched.ignored)
    if not total and not sources:
        return ""
    of_all = f"{len(matched.taken)} of {total}" if matched.ignored else str(len(matched.taken))
    plural = "" if total == 1 else "s"
    verb = "is" if len(matched.taken) == 1 else "are"
    origin = f" of {_list_sources(sources)}" if sources else ""
    text = f"{of_all} known result{plural}{origin} {verb} used"
    if reasons:
        first = [f"{one.reason} ({one.count})" for one in reasons[:_SENTENCE_REASONS_MAX]]
        rest = len(reasons) - len(first)
        text += f"; ignored: {'; '.join([*first, *([f'{rest} more reasons'] if rest else [])])}"
    return f"{text}."


def _list_sources(sources: Sequence[str]) -> str:
    rest = len(sources) - _SENTENCE_SOURCES_MAX
    listed = ", ".join(map(shorten, sources[:_SENTENCE_SOURCES_MAX]))
    return f"{listed} and {rest} more" if rest > 0 else listed
