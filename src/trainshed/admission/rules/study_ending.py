"""Rules about when a study ends: its studyStoppingConfig (docs/sources/vertex.md 8)."""

from collections.abc import Iterator
from datetime import UTC, date, datetime

from trainshed.admission.context import RuleContext
from trainshed.admission.rules.study import broken_study, judged_study, objective_count
from trainshed.model.faults import Violation
from trainshed.model.study import EndingRules, TimeLimit
from trainshed.model.study_places import StudyField, StudyPlace


def study_ending_is_possible(context: RuleContext) -> Iterator[Violation]:
    """Counts and times can be reached, minima are below maxima, and there is one objective."""
    study = judged_study(context)
    if study is None:
        return
    rules = study.ending
    yield from _check_counts(rules)
    yield from _check_lengths(rules)
    yield from _check_dates(rules, context.today)
    yield from _check_order(rules)
    if objective_count(study) > 1:
        yield from _check_progress(rules, objective_count(study))


def _check_counts(rules: EndingRules) -> Iterator[Violation]:
    least, most = rules.trial_count_min, rules.trial_count_max
    counts = (
        (StudyField.ENDING_TRIALS_MIN, "minNumTrials", least, 0),
        (StudyField.ENDING_TRIALS_MAX, "maxNumTrials", most, 1),
        (
            StudyField.TRIALS_WITHOUT_PROGRESS,
            "maxNumTrialsNoProgress",
            rules.trials_without_progress_max,
            1,
        ),
    )
    for field, name, count, bound in counts:
        if count is not None and count < bound:
            message = f"{name} must be at least {bound}, got {count}"
            yield _make_violation(field, message, f"a whole number from {bound}")
    if least is not None and most is not None and least > most >= 1:
        message = f"minNumTrials is {least}, which is more than maxNumTrials, {most}"
        yield _make_violation(StudyField.ENDING_TRIALS_MIN, message, f"at most {most}")


def _check_lengths(rules: EndingRules) -> Iterator[Violation]:
    least = rules.runtime_min.seconds if rules.runtime_min else None
    if least is not None and least < 0:
        yield _make_violation(
            StudyField.RUNTIME_MIN,
            f"maxDuration must not be negative, got {least:g}s",
            "0s or more",
        )
    most = rules.runtime_max.seconds if rules.runtime_max else None
    if most is not None and most <= 0:
        yield _make_violation(
            StudyField.RUNTIME_MAX,
            f"maxDuration must be more than 0s, got {most:g}s",
            "more than 0s",
        )
    pause = rules.seconds_without_progress_max
    if pause is not None and pause <= 0:
        message = f"maxDurationNoProgress must be more than 0s, got {pause:g}s"
        yield _make_violation(StudyField.TIME_WITHOUT_PROGRESS, message, "more than 0s")


def _check_dates(rules: EndingRules, today: date) -> Iterator[Violation]:
    places = (
        (StudyField.RUNTIME_MIN, rules.runtime_min),
        (StudyField.RUNTIME_MAX, rules.runtime_max),
    )
    for field, limit in places:
        if limit is None or limit.until is None:
            continue
        time = _parse_time(limit)
        if time is None:
            message = f"endTime {limit.until} is not a time that exists"
            accepted = "a time of RFC 3339, such as 2026-11-21T00:02:39Z"
            yield _make_violation(field, message, accepted)
        elif field is StudyField.RUNTIME_MAX and time.date() < today:
            yield _make_violation(
                field, f"endTime {limit.until} has passed", "a time in the future"
            )


def _check_order(rules: EndingRules) -> Iterator[Violation]:
    """Yield a violation if the minimum running time is above the maximum, in the same unit."""
    least, most = rules.runtime_min or TimeLimit(), rules.runtime_max or TimeLimit()
    if least.seconds is not None and most.seconds is not None and least.seconds > most.seconds > 0:
        message = (
            f"maxDuration of the minimum is {least.seconds:.12g}s, more than the "
            f"{most.seconds:.12g}s of the maximum"
        )
        yield _make_violation(StudyField.RUNTIME_MIN, message, f"at most {most.seconds:.12g}s")
    first, last = _parse_time(least), _parse_time(most)
    if first and last and first > last:
        message = (
            f"endTime {least.until} of the minimum is after endTime {most.until} of the maximum"
        )
        yield _make_violation(StudyField.RUNTIME_MIN, message, f"{most.until}, or a time before it")


def _check_progress(rules: EndingRules, count: int) -> Iterator[Violation]:
    limits = (
        (StudyField.TRIALS_WITHOUT_PROGRESS, rules.trials_without_progress_max),
        (StudyField.TIME_WITHOUT_PROGRESS, rules.seconds_without_progress_max),
    )
    for field, value in limits:
        if value is not None:
            message = f"progress is measured by one objective, and the study has {count} objectives"
            yield _make_violation(field, message, "a study with one objective, or no such rule")


def _parse_time(limit: TimeLimit) -> datetime | None:
    """Return the date of a limit in UTC; None if there is none or it is not a valid date."""
    try:
        until = datetime.fromisoformat(limit.until or "")
        return until.astimezone(UTC) if until.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _make_violation(field: StudyField, message: str, accepted: str) -> Violation:
    return broken_study("study-ending", StudyPlace(field), message, accepted)
