"""Decides when a study makes no further trials, and whether it failed (docs/sources/vertex.md 8).

Every pass decides from the trials alone, and may revert the decision: if a running trial brings
progress, the study continues.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from trainshed.model.study import Goal, StudySpec, TimeLimit
from trainshed.model.trials import TrialRecord, TrialState, format_count
from trainshed.tuning.ranking import best, better, is_safe, objectives

#: The limit for a study that sets none: the study fails if the first three trials to end have
#: all failed, or if at least three trials and half of all have failed.
FAILED_FIRST: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyEnding:
    """The reason for which a study makes no further trials, as a sentence."""

    reason: str
    asap: bool = False
    """Whether running trials are stopped; otherwise the study waits for them."""
    failed: bool = False
    """Whether the study becomes FAILED; otherwise SUCCEEDED, when its last trial has ended."""
    resumes: bool = False
    """Whether paused trials are resumed until then: the study has only made all of its trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    study: StudySpec
    trials: tuple[TrialRecord, ...]
    """The trials, sorted by number."""
    began: datetime | None
    now: datetime

    @property
    def over(self) -> list[TrialRecord]:
        """Return trials that have ended, in order of their ends."""
        ended_trials = [trial for trial in self.trials if trial.state.is_final]
        return sorted(ended_trials, key=lambda trial: (trial.end_time or self.now, trial.number))

    @property
    def failed(self) -> list[TrialRecord]:
        """Return trials that failed, in order of their ends, without trials that were stopped."""
        return [trial for trial in self.over if has_failed(trial)]


def ended(
    study: StudySpec,
    trials: Sequence[TrialRecord],
    *,
    began: datetime | None,
    now: datetime,
    exhausted: bool,
) -> StudyEnding | None:
    """Return why a study makes no further trials; None if it continues.

    ``began`` is the time when the study began; None: the study has not begun.  ``exhausted`` is
    whether its space has no new points.  A study whose trials have all ended without a success has
    failed.
    """
    in_order = tuple(sorted(trials, key=lambda trial: trial.number))
    snapshot = _Snapshot(study=study, trials=in_order, began=began, now=now)
    ending = _by_rules(snapshot)
    failure = _failure(snapshot)
    if failure and not (ending and ending.asap):  # trials that an asap ending stops have not failed
        return StudyEnding(reason=failure, asap=True, failed=True)
    ending = ending or _by_count(snapshot, exhausted=exhausted)
    if ending and in_order and all(trial.state is TrialState.INFEASIBLE for trial in in_order):
        reason = f"No trial has succeeded. {ending.reason}{_last_reason(snapshot)}"
        return StudyEnding(reason=reason, failed=True)
    return ending


def most_trials(study: StudySpec, *, began: datetime | None, now: datetime) -> int:
    """Return the present limit of trials: the job's count, or the study's own.

    The shortest time blocks the study's count, as it blocks all of its rules.
    """
    study_max = study.ending.trial_count_max
    snapshot = _Snapshot(study=study, trials=(), began=began, now=now)
    if study_max is None or _waits(snapshot):
        return study.trial_count_max
    return min(study_max, study.trial_count_max)


def has_failed(trial: TrialRecord) -> bool:
    """Whether a trial counts as failed: it ended without a result, and not by a stopping rule."""
    return trial.state is TrialState.INFEASIBLE and not trial.stopped_early


def _failure(snapshot: _Snapshot) -> str | None:
    count, limit = len(snapshot.failed), snapshot.study.trial_count_failed_max
    if limit and count >= limit:
        allowed = f"the study allows fewer than {limit}{_last_failure(snapshot)}"
        return f"{format_count(count)} failed; {allowed}"
    if limit:
        return None
    first = list(
        islice((trial for trial in snapshot.over if not trial.stopped_early), FAILED_FIRST)
    )
    if len(first) == FAILED_FIRST and all(map(has_failed, first)):
        return f"The first {FAILED_FIRST} trials to end have failed{_last_failure(snapshot)}"
    if count >= FAILED_FIRST and 2 * count >= snapshot.study.trial_count_max:
        count_max = snapshot.study.trial_count_max
        return f"{format_count(count)} failed, of at most {count_max}{_last_failure(snapshot)}"
    return None


def _last_failure(snapshot: _Snapshot) -> str:
    return _reason_of(snapshot.failed[-1])


def _last_reason(snapshot: _Snapshot) -> str:
    """Describe why the last trial has no result, unless a rule stopped it."""
    ended_trials = snapshot.failed or snapshot.over
    return _reason_of(ended_trials[-1]) if ended_trials else ""


def _reason_of(trial: TrialRecord) -> str:
    reason = trial.infeasible_reason or "It reported no reason"
    return f". The last one, trial {trial.number}: {reason}"


def _by_rules(snapshot: _Snapshot) -> StudyEnding | None:
    """Return the ending by the first rule that applies; None until the minimums are met."""
    if _waits(snapshot) or len(snapshot.over) < (snapshot.study.ending.trial_count_min or 0):
        return None
    for rule in RULES:
        reason = rule(snapshot)
        if reason:
            # a full count does not stop the trials that fill it
            asap = snapshot.study.ending.stop_asap and rule is not _full
            return StudyEnding(reason=reason, asap=asap, resumes=rule is _full)
    return None


def _waits(snapshot: _Snapshot) -> bool:
    time_min = snapshot.study.ending.runtime_min
    return time_min is not None and not all(_passed(time_min, snapshot))


def _overdue(snapshot: _Snapshot) -> str | None:
    """Return the reason if a part of the maximum time has passed, else None."""
    limit = snapshot.study.ending.runtime_max
    if limit is None or not any(_passed(limit, snapshot)):
        return None
    ends = ((limit.seconds, f"{limit.seconds or 0.0:g} s"), (limit.until, f"until {limit.until}"))
    limits = " or ".join(text for value, text in ends if value is not None)
    return f"The study has reached its time limit: {limits}"


def _passed(limit: TimeLimit, snapshot: _Snapshot) -> Iterator[bool]:
    """Yield whether each part of a limit has passed; seconds count from ``began``."""
    if limit.seconds is not None:
        yield snapshot.began is not None and _seconds(snapshot.began, snapshot.now) >= limit.seconds
    if limit.until is not None:
        yield snapshot.now >= time_of(limit.until)


def _full(snapshot: _Snapshot) -> str | None:
    """Return the reason if the study has its maximum count of trials, in any state, else None."""
    count_max = snapshot.study.ending.trial_count_max
    return _count_reason(snapshot, count_max) if count_max is not None else None


def _no_better_trial(snapshot: _Snapshot) -> str | None:
    """Return the reason if too many trials after the best one succeeded without progress."""
    count_max = snapshot.study.ending.trials_without_progress_max
    succeeded = [trial for trial in snapshot.over if trial.state is TrialState.SUCCEEDED]
    count = len(succeeded) - _progress(snapshot, succeeded)[0]
    if count_max is None or not _single(snapshot.study) or not succeeded or count < count_max:
        return None
    return f"No better trial for {format_count(count)}{_best_clause(snapshot)}"


def _no_better_time(snapshot: _Snapshot) -> str | None:
    """Return the reason if the best trial (or, if none is safe, the first success) is too old."""
    seconds_max = snapshot.study.ending.seconds_without_progress_max
    succeeded = [trial for trial in snapshot.over if trial.state is TrialState.SUCCEEDED]
    if seconds_max is None or not _single(snapshot.study) or not succeeded:
        return None
    since_s = _seconds(_progress(snapshot, succeeded)[1], snapshot.now)
    return (
        f"No better trial for {since_s:.0f} s{_best_clause(snapshot)}"
        if since_s >= seconds_max
        else None
    )


#: The rules that end a study, in the order of the API.
RULES: Final[tuple[Callable[[_Snapshot], str | None], ...]] = (
    _overdue,
    _full,
    _no_better_trial,
    _no_better_time,
)


def _progress(snapshot: _Snapshot, succeeded: Sequence[TrialRecord]) -> tuple[int, datetime]:
    """Return the number of successes at the last progress, and its time."""
    name, goal = _objective(snapshot.study)
    count, best_value = 0, None
    for number, trial in enumerate(succeeded, start=1):
        value = trial.final.value(name) if trial.final and is_safe(snapshot.study, trial) else None
        if value is not None and (best_value is None or better(goal, value, best_value)):
            count, best_value = number, value
    end_time = succeeded[max(count, 1) - 1].end_time if succeeded else None
    return count, end_time or snapshot.now


def _by_count(snapshot: _Snapshot, *, exhausted: bool) -> StudyEnding | None:
    """Return the ending of a study whose trials are all made, or whose space has no new points."""
    reason = _count_reason(snapshot, snapshot.study.trial_count_max)
    if reason is None and exhausted:
        count = format_count(len(snapshot.trials))
        reason = (
            f"All points of the search space have been tried, in {count}{_best_clause(snapshot)}"
        )
    return StudyEnding(reason=reason, resumes=True) if reason else None


def _count_reason(snapshot: _Snapshot, count_max: int) -> str | None:
    full = len(snapshot.trials) >= count_max
    return (
        f"The study has made all of its {format_count(count_max)}{_best_clause(snapshot)}"
        if full
        else None
    )


def _best_clause(snapshot: _Snapshot) -> str:
    leader = best(snapshot.study, snapshot.trials)
    if leader is None or leader.final is None:
        return ""
    name, _ = _objective(snapshot.study)
    return f"; the best is trial {leader.number} with {name} {leader.final.value(name):.6g}"


def _single(study: StudySpec) -> bool:
    return len(objectives(study)) == 1


def _objective(study: StudySpec) -> tuple[str, Goal]:
    metric = objectives(study)[0]
    return metric.metric_id, metric.goal


def _seconds(since: datetime, now: datetime) -> float:
    return (now - since).total_seconds()


def time_of(text: str) -> datetime:
    """Return an RFC 3339 time, UTC by default.  Raises ValueError for any other text."""
    try:
        time = datetime.fromisoformat(text.strip().upper())
    except ValueError:
        raise ValueError(f"{text!r} is not an RFC 3339 time such as 2026-11-21T14:00:00Z") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
