"""The rule of successive halving: stops a trial at a rung that few of its rivals pass.

A rung is a step.  Of the trials that have come to a rung, the best ``1 / reduction`` continue, so
that few trials get many steps (ASHA: Li et al., "A System for Massively Parallel Hyperparameter
Tuning", 2020; the variant that stops trials and resumes none).  A trial is judged at the last rung
that it has passed, by its best value up to there, and again whenever another trial arrives: a trial
that came early has few rivals, and is compared with those that come later.  Stopped trials count at
the rungs that they have passed.  Trials without a result do not count.

The last step of the longest trial that ended by itself, divided by the reduction factor again and
again, gives the rungs.  There are as many as ``trial_count_max`` has powers of that factor.  Until
a trial has ended there are none: rungs from the first reports would stop most trials of a parallel
study in the first moments of a long training.  A rule with a ``first_rung`` needs no ended trial;
its rungs are multiples of that step (decision 0119).
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trainshed.model.study import AshaRule, Metric, StudySpec
from trainshed.model.trials import EarlyStop, TrialRecord, TrialState
from trainshed.tuning.curves import TrialCurve, curves, ended_by_itself
from trainshed.tuning.ranking import objectives, upward

#: The share of the longest trial before which no derived rung is.
FIRST_SHARE: Final = 0.05
#: The minimum of trials at a rung, in reduction factors, before one of them is stopped there.
RIVALS_MIN: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """A rung, with the trials that have come to it."""

    at: float
    """The step, or second, of the rung."""
    values: Mapping[int, float]
    """By trial its best value up to the rung; more is better."""
    bar: float | None
    """The least of the values that continue; None while the rung stops no trial."""


def rungs_of(study: StudySpec, trials: Sequence[TrialRecord]) -> tuple[Rung, ...]:
    """Return the rungs of a study, the first one first; none if another rule, or none, stops it.

    ``values`` and ``bar`` have the sign of the metric.
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
        for rung in _rungs(study, goals[0], study.stopping, trials)
    )


def stopped_by_asha(
    study: StudySpec, metric: Metric, rule: AshaRule, trials: Sequence[TrialRecord]
) -> Mapping[int, EarlyStop]:
    """Return each ACTIVE trial that the rule stops, and why."""
    rungs = _rungs(study, metric, rule, trials)
    active = (trial for trial in trials if trial.state is TrialState.ACTIVE)
    stops = {
        curve.number: _stop_reason(curve, rungs, metric, rule)
        for curve in curves(metric, active, by_time=rule.by_time)
    }
    return {number: stop for number, stop in stops.items() if stop}


def _rungs(
    study: StudySpec, metric: Metric, rule: AshaRule, trials: Sequence[TrialRecord]
) -> tuple[Rung, ...]:
    counted = [trial for trial in trials if trial.state is not TrialState.INFEASIBLE]
    all_curves = curves(metric, counted, by_time=rule.by_time)
    done = {trial.number for trial in counted if ended_by_itself(trial)}
    longest = max((curve.end for curve in all_curves if curve.number in done), default=None)
    furthest = max((curve.end for curve in all_curves), default=0.0)
    steps = _steps(rule, study.trial_count_max, longest, furthest)
    return tuple(_rung(at, all_curves, rule) for at in steps)


def _steps(
    rule: AshaRule, trial_count_max: int, longest: float | None, furthest: float
) -> tuple[float, ...]:
    """Return the steps of the rungs, in ascending order."""
    if rule.first_rung is not None:
        end = math.nextafter(furthest, math.inf) if longest is None else longest
        return tuple(_multiples(rule.first_rung, rule.reduction, end))
    return tuple(sorted(_shares(longest or 0.0, rule, trial_count_max)))


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
    if count < RIVALS_MIN * rule.reduction:
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
    )
