"""The median rule: stops a trial that is worse than the median.

A trial is stopped when its best value is strictly worse than the median of the running averages of
the completed trials, up to the same step or time (docs/sources/vertex.md 8).  Two numbers are our
choice: the minimum of trials for a median, and the minimum of measurements of a checked trial.
Stopped trials are left out of the median, because each would make the rule milder.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from trainshed.model.study import MedianRule, Metric, StudySpec
from trainshed.model.trials import EarlyStop, TrialRecord, TrialState
from trainshed.tuning.curves import RunningAverages, TrialCurve, curves, ended_by_itself
from trainshed.tuning.ranking import upward

#: The minimum of trials that ended by themselves for a median.
COMPLETED_MIN: Final = 3
#: The minimum of measurements before a trial is checked: the first ones predict little.
MEASUREMENTS_MIN: Final = 3


def stopped_by_median(
    study: StudySpec, metric: Metric, rule: MedianRule, trials: Sequence[TrialRecord]
) -> Mapping[int, EarlyStop]:
    """Return each ACTIVE trial that the rule stops, and why."""
    del study
    done = curves(metric, filter(ended_by_itself, trials), by_time=rule.by_time)
    if len(done) < COMPLETED_MIN:
        return {}
    averages = [RunningAverages(curve) for curve in done]
    active = (trial for trial in trials if trial.state is TrialState.ACTIVE)
    stops = {
        curve.number: _stop_reason(curve, averages, metric, rule)
        for curve in curves(metric, active, by_time=rule.by_time)
    }
    return {number: stop for number, stop in stops.items() if stop}


def _stop_reason(
    curve: TrialCurve, averages: Sequence[RunningAverages], metric: Metric, rule: MedianRule
) -> EarlyStop | None:
    if len(curve.at) < MEASUREMENTS_MIN:
        return None
    values = [value for average in averages if (value := average.up_to(curve.end)) is not None]
    if len(values) < COMPLETED_MIN or curve.best >= (middle := statistics.median(values)):
        return None
    best, middle = upward(metric.goal, curve.best), upward(metric.goal, middle)
    moment = f"after {curve.end:.6g} s" if rule.by_time else f"at step {curve.end:.6g}"
    return EarlyStop(
        rule=rule.rule,
        metric=metric.metric_id,
        value=best,
        bar=middle,
        at=curve.end,
        by_time=rule.by_time,
        reason=f"Its best {metric.metric_id} {moment} is {best:.6g}, and the median of the "
        f"averages of {len(values)} completed trials up to this point is {middle:.6g}",
    )
