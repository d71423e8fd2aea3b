"""When a study makes no further trials, and whether it has failed (R19; contracts/vertex-sdk.md 8).

Asked on every pass and answered from the trials alone.  So an ending can be taken back: a trial
that still ran when there had been no progress may bring some, and then the study goes on.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from trainshed.model.study import Goal, StudySpec, TimeLimit
from trainshed.model.trials import TrialRecord, TrialState
from trainshed.tuning.ranking import best, better, is_safe, objectives

#: The service's own limit, for a study that says none: the first trials to end have all failed,
#: or half of all trials have, and as many as this.
FAILED_FIRST: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Why there are no further trials, as a sentence."""

    reason: str
    asap: bool = False
    """Trials that run are to be stopped; else they are awaited."""
    failed: bool = False
    """The study is FAILED; else SUCCEEDED, once its last trial has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """A study as it stands."""

    study: StudySpec
    trials: tuple[TrialRecord, ...]
    """By number."""
    began: datetime | None
    now: datetime

    @property
    def over(self) -> list[TrialRecord]:
        """Trials that have ended, in the order in which they did."""
        over = [trial for trial in self.trials if trial.state.is_final]
        return sorted(over, key=lambda trial: (trial.end_time or self.now, trial.number))

    @property
    def failed(self) -> list[TrialRecord]:
        """Trials that have failed, in the order in which they did; those we stopped have not."""
        return [trial for trial in self.over if has_failed(trial)]


def ended(
    study: StudySpec,
    trials: Sequence[TrialRecord],
    *,
    began: datetime | None,
    now: datetime,
    exhausted: bool,
) -> Ending | None:
    """Why a study makes no further trials; None where it goes on.

    ``began`` is when the study began, None: it has not.  ``exhausted``: there is nothing left to
    try in its space.  A study whose trials have all ended without a success has failed.
    """
    in_order = tuple(sorted(trials, key=lambda trial: trial.number))
    moment = _Moment(study=study, trials=in_order, began=began, now=now)
    ending = _by_rules(moment)
    failure = _failure(moment)
    if failure and not (ending and ending.asap):  # what an asap ending stops has not failed
        return Ending(reason=failure, asap=True, failed=True)
    ending = ending or _by_count(moment, exhausted=exhausted)
    if ending and in_order and _in_vain(in_order):
        return Ending(reason=f"No trial has succeeded. {ending.reason}", failed=True)
    return ending


def most_trials(study: StudySpec, *, began: datetime | None, now: datetime) -> int:
    """How many trials may be made as things are now: the job's count, or the study's own.

    The shortest time blocks the study's count, as it blocks all of its rules.
    """
    own = study.ending.trial_count_max
    moment = _Moment(study=study, trials=(), began=began, now=now)
    if own is None or _waits(moment):
        return study.trial_count_max
    return min(own, study.trial_count_max)


def has_failed(trial: TrialRecord) -> bool:
    """Whether a trial counts as failed: it ended without a result, and not by a stopping rule."""
    return trial.state is TrialState.INFEASIBLE and not trial.stopped_early


def _failure(moment: _Moment) -> str | None:
    """Why too many trials have failed."""
    count, limit = len(moment.failed), moment.study.trial_count_failed_max
    if limit and count >= limit:
        return f"{_trials(count)} failed, and {limit} are too many{_last_words(moment)}"
    if limit:
        return None
    first = list(islice((trial for trial in moment.over if not trial.stopped_early), FAILED_FIRST))
    if len(first) == FAILED_FIRST and all(map(has_failed, first)):
        return f"The first {FAILED_FIRST} trials to end have failed{_last_words(moment)}"
    if count >= FAILED_FIRST and 2 * count >= moment.study.trial_count_max:
        most = moment.study.trial_count_max
        return f"{_trials(count)} failed, of {most} at the most{_last_words(moment)}"
    return None


def _last_words(moment: _Moment) -> str:
    last = moment.failed[-1]
    reason = last.infeasible_reason or "It gave no reason"
    return f". Of trial {last.number}, the last one, it is known: {reason}"


def _by_rules(moment: _Moment) -> Ending | None:
    """The study's own rules from top to bottom; the minimum ones block the others."""
    if _too_early(moment):
        return None
    for rule in RULES:
        reason = rule(moment)
        if reason:
            # a count that is full is no reason to stop the trials that fill it
            asap = moment.study.ending.stop_asap and rule is not _full
            return Ending(reason=reason, asap=asap)
    return None


def _too_early(moment: _Moment) -> bool:
    return _waits(moment) or len(moment.over) < (moment.study.ending.trial_count_min or 0)


def _waits(moment: _Moment) -> bool:
    least = moment.study.ending.runtime_min
    return least is not None and not all(_passed(least, moment))


def _overdue(moment: _Moment) -> str | None:
    """The longest time: whichever of its parts has passed first ends the study."""
    limit = moment.study.ending.runtime_max
    if limit is None or not any(_passed(limit, moment)):
        return None
    ends = ((limit.seconds, f"{limit.seconds or 0.0:g} s"), (limit.until, f"until {limit.until}"))
    given = " or ".join(text for value, text in ends if value is not None)
    return f"The study has had its time: {given}"


def _passed(limit: TimeLimit, moment: _Moment) -> Iterator[bool]:
    """Whether each part of a limit has passed; a study that has not begun uses up no seconds."""
    if limit.seconds is not None:
        yield moment.began is not None and _seconds(moment.began, moment.now) >= limit.seconds
    if limit.until is not None:
        yield moment.now >= time_of(limit.until)


def _full(moment: _Moment) -> str | None:
    """The study's own count of trials; whatever their state, they have been made."""
    most = moment.study.ending.trial_count_max
    return _made(moment, most) if most is not None else None


def _no_better_trial(moment: _Moment) -> str | None:
    """Trials that succeeded since the best one did; failed ones say nothing about progress."""
    most = moment.study.ending.trials_without_progress_max
    succeeded = [trial for trial in moment.over if trial.state is TrialState.SUCCEEDED]
    since = len(succeeded) - _progress(moment, succeeded)[0]
    if most is None or not _single(moment.study) or not succeeded or since < most:
        return None
    return f"No better trial for {_trials(since)}{_the_best(moment)}"


def _no_better_time(moment: _Moment) -> str | None:
    """The time since the best trial ended, or where none is safe since the first that succeeded."""
    most = moment.study.ending.seconds_without_progress_max
    succeeded = [trial for trial in moment.over if trial.state is TrialState.SUCCEEDED]
    if most is None or not _single(moment.study) or not succeeded:
        return None
    since_s = _seconds(_progress(moment, succeeded)[1], moment.now)
    return f"No better trial for {since_s:.0f} s{_the_best(moment)}" if since_s >= most else None


#: The rules that end a study, in the order of the API.
RULES: Final[tuple[Callable[[_Moment], str | None], ...]] = (
    _overdue,
    _full,
    _no_better_trial,
    _no_better_time,
)


def _progress(moment: _Moment, succeeded: Sequence[TrialRecord]) -> tuple[int, datetime]:
    """How many trials had succeeded when the last progress was made, and when that was."""
    name, goal = _objective(moment.study)
    count, top = 0, None
    for number, trial in enumerate(succeeded, start=1):
        value = trial.final.value(name) if trial.final and is_safe(moment.study, trial) else None
        if value is not None and (top is None or better(goal, value, top)):
            count, top = number, value
    at = succeeded[max(count, 1) - 1].end_time if succeeded else None
    return count, at or moment.now


def _by_count(moment: _Moment, *, exhausted: bool) -> Ending | None:
    """What ends every study: its trials are all made, or nothing is left to try."""
    reason = _made(moment, moment.study.trial_count_max)
    if reason is None and exhausted:
        count = _trials(len(moment.trials))
        reason = f"Everything there is to try has been tried, in {count}{_the_best(moment)}"
    return Ending(reason=reason) if reason else None


def _made(moment: _Moment, most: int) -> str | None:
    full = len(moment.trials) >= most
    return f"The study has had its {_trials(most)}{_the_best(moment)}" if full else None


def _the_best(moment: _Moment) -> str:
    leader = best(moment.study, moment.trials)
    if leader is None or leader.final is None:
        return ""
    name, _ = _objective(moment.study)
    return f"; the best is trial {leader.number} with {name} {leader.final.value(name):.6g}"


def _in_vain(trials: Sequence[TrialRecord]) -> bool:
    """Whether all trials have ended and none has succeeded."""
    return all(trial.state is TrialState.INFEASIBLE for trial in trials)


def _single(study: StudySpec) -> bool:
    return len(objectives(study)) == 1


def _objective(study: StudySpec) -> tuple[str, Goal]:
    metric = objectives(study)[0]
    return metric.metric_id, metric.goal


def _trials(count: int) -> str:
    return "1 trial" if count == 1 else f"{count} trials"


def _seconds(since: datetime, now: datetime) -> float:
    return (now - since).total_seconds()


def time_of(text: str) -> datetime:
    """An RFC 3339 time; one without a zone is UTC.  Raises ValueError for what is none."""
    try:
        time = datetime.fromisoformat(text.strip().upper())
    except ValueError:
        raise ValueError(f"{text!r} is no RFC 3339 time such as 2026-11-21T14:00:00Z") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
