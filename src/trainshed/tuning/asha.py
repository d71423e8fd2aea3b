"""The rule of successive halving: stops or pauses a trial at a rung that few of its rivals pass.

A rung is a step.  Of the trials that have come to a rung, the best ``1 / reduction`` continue, so
that few trials get many steps (ASHA: Li et al., "A System for Massively Parallel Hyperparameter
Tuning", 2020).  A trial is judged at the last rung that it has passed, by its best value up to
there, and again whenever another trial arrives: a trial that came early has few rivals, and is
compared with those that come later.  Stopped and paused trials count at the rungs that they have
passed.  Trials without a result do not count.

A trial with a checkpoint is paused, and not stopped, if the study allows it: worse trials that
arrive later may make it one of the best of its rung, and the study then resumes it.  A resumed
trial is not judged again up to the step at which it was paused, so that it is not paused again
before it has trained (decision 0121).

The last step of the longest trial that ended by itself, divided by the reduction factor again and
again, gives the rungs.  There are as many as ``trial_count_max`` has powers of that factor, and
none is before ``FIRST_SHARE`` of that step.  Until a trial has ended, the rungs are the step of the
third report, the earliest one of all trials, times powers of the factor.  These may be early in a
long training, so that they stop only ``EARLY_SHARE`` of the study's trials; then the study waits
for an end.  To wait from the beginning was rejected: the first trials of a parallel study then run
to their end.  With a ``first_rung`` the rungs are its multiples, always (decision 0119).
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from trainshed.model.study import AshaRule, Metric, StudySpec
from trainshed.model.trials import EarlyStop, TrialRecord, TrialState, format_count
from trainshed.tuning.curves import TrialCurve, curves, ended_by_itself
from trainshed.tuning.ranking import objectives, upward

#: The report of a trial at which the first rung is while no trial has ended.
REPORTS_FIRST: Final = 3
#: The share of ``trial_count_max`` that may be stopped while no trial has ended.
EARLY_SHARE: Final = 1 / 3
#: The share of the longest trial before which no derived rung is.
FIRST_SHARE: Final = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """A rung, with the trials that have come to it."""

    at: float
    """The step, or second, of the rung."""
    values: Mapping[int, float]
    """By trial its best value up to the rung; more is better."""
    bar: float | None
    """The least of the values that continue; None while the rung stops no trial."""


class Promotion(NamedTuple):
    """A paused trial that is among the best of its rung now."""

    number: int
    order: tuple[float, float, int]
    """Sorts promotions: first the one with the most steps."""
    reason: str
    """The sentence that says why it is resumed, without its full stop."""


def rungs_of(
    study: StudySpec,
    trials: Sequence[TrialRecord],
    all_curves: Sequence[TrialCurve] | None = None,
) -> tuple[Rung, ...]:
    """Return the rungs of a study, the first one first; none if another rule, or none, stops it.

    ``values`` and ``bar`` have the sign of the metric.  With ``all_curves``, those of the trials by
    number, the trials need no measurements.
    """
    goals = objectives(study)
    if not isinstance(study.stopping, AshaRule) or len(goals) != 1:
        return ()
    goal = goals[0].goal
    return tuple(
        Rung(
            at=rung.at,
            values={number: upward(goal, value) for number, value in rung.values.items()},
            bar=None if rung.bar is None else upward(goal, rung.bar),
        )
        for rung in _rungs(study, goals[0], study.stopping, trials, all_curves)
    )


def stopped_by_asha(
    study: StudySpec, metric: Metric, rule: AshaRule, trials: Sequence[TrialRecord]
) -> Mapping[int, EarlyStop]:
    """Return each ACTIVE trial that the rule stops, and why."""
    rungs = _rungs(study, metric, rule, trials)
    active = {trial.number: trial for trial in trials if trial.state is TrialState.ACTIVE}
    stops = {
        curve.number: _stop_reason(curve, rungs, metric, rule)
        for curve in curves(metric, active.values(), by_time=rule.by_time)
        if not _was_paused_here(active[curve.number], curve, rungs)
    }
    return {number: stop for number, stop in stops.items() if stop}


def _was_paused_here(trial: TrialRecord, curve: TrialCurve, rungs: Sequence[Rung]) -> bool:
    """Whether a trial was resumed and has not passed a rung since."""
    index = rung_index(rungs, curve.end)
    return trial.paused_at is not None and index is not None and rungs[index].at <= trial.paused_at


def pauses(study: StudySpec) -> bool:
    """Whether the rule of a study pauses the trials that have a checkpoint."""
    rule = study.stopping
    is_halving = isinstance(rule, AshaRule) and rule.pauses and not rule.by_time
    return is_halving and len(objectives(study)) == 1


def promotions(study: StudySpec, trials: Sequence[TrialRecord]) -> tuple[Promotion, ...]:
    """Return the PAUSED trials to resume, those with the most steps first, then the best ones.

    A trial that was paused before the first rung of today is judged at its last step.  Here the
    rungs of a study in which no trial has ended count however many trials are paused.
    """
    rule = study.stopping
    paused = {trial.number for trial in trials if trial.state is TrialState.PAUSED}
    if not paused or not isinstance(rule, AshaRule) or not pauses(study):
        return ()
    metric = objectives(study)[0]
    all_curves = curves(metric, _counted(trials), by_time=False)
    steps = _steps(rule, study.trial_count_max, _longest(trials, all_curves), all_curves)
    rungs = tuple(_rung(at, all_curves, rule) for at in steps)
    judged = (
        _promotion(curve, rungs, all_curves, metric, rule)
        for curve in all_curves
        if curve.number in paused
    )
    return tuple(sorted((one for one in judged if one), key=lambda one: one.order))


def _promotion(
    curve: TrialCurve,
    rungs: Sequence[Rung],
    all_curves: Sequence[TrialCurve],
    metric: Metric,
    rule: AshaRule,
) -> Promotion | None:
    """Return the promotion of a paused trial; None while it is not among the best of its rung."""
    index = rung_index(rungs, curve.end)
    rung = _rung(curve.end, all_curves, rule) if index is None else rungs[index]
    own = rung.values[curve.number]
    if rung.bar is not None and own < rung.bar:
        return None
    rank = 1 + sum(other > own for other in rung.values.values())
    passing = _passing(len(rung.values), rule)
    among = f"the best {passing} continue" if passing > 1 else "the best one continues"
    at = f"at step {rung.at:.6g}" + (
        "" if index is None else f", rung {index + 1} of {len(rungs)},"
    )
    return Promotion(
        number=curve.number,
        order=(-rung.at, -own, curve.number),
        reason=f"Its best {metric.metric_id} {at} is {upward(metric.goal, own):.6g}, "
        f"now rank {rank} of {format_count(len(rung.values))}; {among}",
    )


def _counted(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Return the trials that count at rungs."""
    return [trial for trial in trials if trial.state is not TrialState.INFEASIBLE]


def _rungs(
    study: StudySpec,
    metric: Metric,
    rule: AshaRule,
    trials: Sequence[TrialRecord],
    all_curves: Sequence[TrialCurve] | None = None,
) -> tuple[Rung, ...]:
    counted = _counted(trials)
    if all_curves is None:
        all_curves = curves(metric, counted, by_time=rule.by_time)
    else:
        numbers = {trial.number for trial in counted}
        all_curves = [curve for curve in all_curves if curve.number in numbers]
    longest = _longest(counted, all_curves)
    if longest is None and rule.first_rung is None and _is_too_early(study, counted):
        return ()
    steps = _steps(rule, study.trial_count_max, longest, all_curves)
    return tuple(_rung(at, all_curves, rule) for at in steps)


def _longest(trials: Sequence[TrialRecord], all_curves: Sequence[TrialCurve]) -> float | None:
    """Return the last step of the longest trial that ended by itself; None without one."""
    done = {trial.number for trial in trials if ended_by_itself(trial)}
    return max((curve.end for curve in all_curves if curve.number in done), default=None)


def _is_too_early(study: StudySpec, trials: Sequence[TrialRecord]) -> bool:
    """Whether the share of trials that may be stopped before any has ended is used up."""
    stopped = sum(trial.stopped_early or trial.state is TrialState.PAUSED for trial in trials)
    return stopped >= study.trial_count_max * EARLY_SHARE


def _steps(
    rule: AshaRule, trial_count_max: int, longest: float | None, all_curves: Sequence[TrialCurve]
) -> tuple[float, ...]:
    """Return the steps of the rungs, in ascending order."""
    if longest is not None and rule.first_rung is None:
        return tuple(sorted(_shares(longest, rule, trial_count_max)))
    furthest = max((curve.end for curve in all_curves), default=0.0)
    end = math.nextafter(furthest, math.inf) if longest is None else longest
    first = rule.first_rung or _third_report(all_curves)
    return tuple(_multiples(first, rule.reduction, end))


def _third_report(all_curves: Sequence[TrialCurve]) -> float:
    """Return the earliest step of a third report; infinity without one after step 0."""
    steps = [one.at[REPORTS_FIRST - 1] for one in all_curves if len(one.at) >= REPORTS_FIRST]
    return min((step for step in steps if step > 0), default=math.inf)


def _multiples(first: float, reduction: int, end: float) -> Iterator[float]:
    at = float(first)
    while at < end:
        yield at
        at *= reduction


def _shares(longest: float, rule: AshaRule, trial_count_max: int) -> frozenset[float]:
    """Return the shares of the longest trial; steps are whole, and seconds need not be."""
    shares, divisor = [], rule.reduction
    while divisor <= trial_count_max and divisor * FIRST_SHARE <= 1.0:
        share = longest / divisor
        shares.append(share if rule.by_time else float(math.ceil(share)))
        divisor *= rule.reduction
    return frozenset(share for share in shares if share < longest)


def _rung(at: float, all_curves: Sequence[TrialCurve], rule: AshaRule) -> Rung:
    values = {curve.number: _value_at(curve, at) for curve in all_curves if curve.end >= at}
    count = len(values)
    if count < rule.reduction:
        return Rung(at=at, values=values, bar=None)
    bar = sorted(values.values(), reverse=True)[_passing(count, rule) - 1]
    return Rung(at=at, values=values, bar=bar)


def _passing(count: int, rule: AshaRule) -> int:
    """Return how many of so many trials at a rung continue."""
    return max(1, count // rule.reduction)


def _value_at(curve: TrialCurve, at: float) -> float:
    """Return a curve's best value up to its first measurement at a rung or after it."""
    return max(curve.values[: bisect_left(curve.at, at) + 1])


def rung_index(rungs: Sequence[Rung], at: float) -> int | None:
    """Return the position of the last rung that a trial has passed with its last step ``at``."""
    index = bisect_right([rung.at for rung in rungs], at)
    return index - 1 if index else None


def _stop_reason(
    curve: TrialCurve, rungs: Sequence[Rung], metric: Metric, rule: AshaRule
) -> EarlyStop | None:
    index = rung_index(rungs, curve.end)
    rung = None if index is None else rungs[index]
    if index is None or rung is None or rung.bar is None or rung.values[curve.number] >= rung.bar:
        return None
    own = rung.values[curve.number]
    value, bar = upward(metric.goal, own), upward(metric.goal, rung.bar)
    count, rank = len(rung.values), 1 + sum(other > own for other in rung.values.values())
    moment = f"after {rung.at:.6g} s" if rule.by_time else f"at step {rung.at:.6g}"
    passing = _passing(count, rule)
    continues = f"the best {passing} continue" if passing > 1 else "the best one continues"
    return EarlyStop(
        rule=rule.rule,
        metric=metric.metric_id,
        value=value,
        bar=bar,
        at=curve.end,
        by_time=rule.by_time,
        reason=f"Its best {metric.metric_id} {moment}, rung {index + 1} of {len(rungs)}, is "
        f"{value:.6g}, rank {rank} of {count} trials; {continues}, from {bar:.6g}",
        rung=index + 1,
    )
