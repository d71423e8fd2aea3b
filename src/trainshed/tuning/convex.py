"""The convex rule: stops a trial whose optimistic end is worse than the best trial.

The rule needs more than minMeasurementCount completed trials.  It extrapolates a trial's slope to
maxStepCount, stops the trial if even this value is worse than the best trial, and adds a predicted
last measurement (docs/sources/vertex.md 8).  A learning curve flattens, so a straight line along
its present slope is above the curve.  The prediction for a stopped trial is never better than the
best trial.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trainshed.model.study import ConvexRule, Metric, Selection, StudySpec
from trainshed.model.trials import EarlyStop, Measurement, TrialRecord, TrialState
from trainshed.tuning.curves import TrialCurve, curve_of, curves, ended_by_itself
from trainshed.tuning.ranking import best, upward

Array = NDArray[np.float64]

MEASUREMENTS_MIN: Final = 5
STEPS_MIN_SHARE: Final = 0.1
#: The share of a curve, at its end, from which the slope is computed, and the minimum of points.
SLOPE_SHARE: Final = 0.5
SLOPE_POINTS_MIN: Final = 3
#: The ridge penalty of a prediction's regression.
RIDGE: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Baseline:
    """Values of the completed trials, for comparison; steps are seconds if the rule uses time."""

    best: float
    """The best final value; more is better."""
    leader: int
    """The number of the best trial."""
    done: tuple[TrialCurve, ...]
    step_max: float
    step_min: float
    measurements_min: int


def stopped_by_convex(
    study: StudySpec, metric: Metric, rule: ConvexRule, trials: Sequence[TrialRecord]
) -> Mapping[int, EarlyStop]:
    """Return each ACTIVE trial that the rule stops, and why."""
    baseline = _baseline(study, metric, rule, trials)
    if baseline is None:
        return {}
    active = (trial for trial in trials if trial.state is TrialState.ACTIVE)
    stops = {
        curve.number: _stop_reason(curve, baseline, metric, rule)
        for curve in curves(metric, active, by_time=rule.by_time)
    }
    return {number: stop for number, stop in stops.items() if stop}


def _baseline(
    study: StudySpec, metric: Metric, rule: ConvexRule, trials: Sequence[TrialRecord]
) -> _Baseline | None:
    leader = best(study, trials)
    done = curves(metric, filter(ended_by_itself, trials), by_time=rule.by_time)
    count_min = int(_value_or(rule.measurement_count_min, MEASUREMENTS_MIN))
    if leader is None or leader.final is None or len(done) <= count_min:
        return None
    step_max = _value_or(rule.step_count_max, max(curve.end for curve in done))
    return _Baseline(
        best=upward(metric.goal, leader.final.value(metric.metric_id) or 0.0),
        leader=leader.number,
        done=done,
        step_max=step_max,
        step_min=_value_or(rule.step_count_min, STEPS_MIN_SHARE * step_max),
        measurements_min=count_min,
    )


def _value_or(value: float | None, default: float) -> float:
    return default if value is None else value


def _stop_reason(
    curve: TrialCurve, baseline: _Baseline, metric: Metric, rule: ConvexRule
) -> EarlyStop | None:
    if len(curve.at) < baseline.measurements_min or curve.end <= baseline.step_min:
        return None
    end = _optimistic_end(curve, baseline.step_max)
    if end is None or end >= baseline.best:
        return None
    forecast, value = upward(metric.goal, end), upward(metric.goal, baseline.best)
    moment = (
        f"after {baseline.step_max:.6g} s" if rule.by_time else f"at step {baseline.step_max:.6g}"
    )
    return EarlyStop(
        rule=rule.rule,
        metric=metric.metric_id,
        value=forecast,
        bar=value,
        at=curve.end,
        by_time=rule.by_time,
        reason=f"Its {metric.metric_id} {moment} would be {forecast:.6g} at best, "
        f"and trial {baseline.leader} has {value:.6g}",
    )


def _optimistic_end(curve: TrialCurve, step_max: float) -> float | None:
    """Return the value that a curve reaches at its present slope; None for a constant curve."""
    if len(set(curve.values)) == 1:
        return None
    steps_left = max(step_max - curve.end, 0.0)
    return curve.best + max(_slope(curve), 0.0) * steps_left


def _slope(curve: TrialCurve) -> float:
    """Return the slope of the latest part of a curve, by least squares."""
    count = max(math.ceil(SLOPE_SHARE * len(curve.at)), SLOPE_POINTS_MIN)
    at, values = np.array(curve.at[-count:]), np.array(curve.values[-count:])
    off = at - at.mean()
    spread = float(off @ off)
    return float(off @ values) / spread if spread else 0.0


def predictions(
    study: StudySpec, metric: Metric, rule: ConvexRule, trials: Sequence[TrialRecord]
) -> Mapping[int, Measurement]:
    """Return the predicted last measurement of each early stopped trial, by number.

    Predicts for STOPPING trials, and with ``update_all_stopped_trials`` for SUCCEEDED trials too.
    With the selection BEST, a trial whose best measurement beats its prediction is left out.
    """
    baseline = _baseline(study, metric, rule, trials)
    if baseline is None:
        return {}
    states = {TrialState.STOPPING, *([TrialState.SUCCEEDED] * rule.update_all_stopped_trials)}
    rates = _rates(rule, trials)
    measurements = {}
    for trial in trials:
        curve = curve_of(metric, trial, by_time=rule.by_time)
        if trial.state in states and trial.stopped_early and curve:
            value = _predicted_end(curve, baseline, rates)
            if study.selection is Selection.LAST or value > curve.best:
                measurements[trial.number] = _measurement(
                    trial, metric, rule, (baseline.step_max, value)
                )
    return measurements


def _rates(rule: ConvexRule, trials: Sequence[TrialRecord]) -> Mapping[int, float]:
    """Return the logarithm of each trial's learning rate, if it has one."""
    values = {trial.number: dict(trial.values) for trial in trials}
    rates = {
        n: parameters.get(rule.learning_rate_parameter or "") for n, parameters in values.items()
    }
    return {n: math.log(r) for n, r in rates.items() if isinstance(r, int | float) and r > 0}


def _predicted_end(curve: TrialCurve, baseline: _Baseline, rates: Mapping[int, float]) -> float:
    """Predict the end of a curve from completed ones; never better than the best.

    A regression predicts the gain after the curve's last step.  Its features are the value and the
    slope at that step, and the learning rate.
    """
    cuts = [cut for past_curve in baseline.done if (cut := _cut(past_curve, curve.end))]
    if not cuts:
        return min(curve.values[-1], math.nextafter(baseline.best, -math.inf))
    mean_rate = sum(rates.values()) / len(rates) if rates else 0.0
    rows = np.array([_features(cut, rates.get(cut.number, mean_rate)) for cut in cuts])
    ends = {past_curve.number: past_curve.values[-1] for past_curve in baseline.done}
    gains = np.array([ends[cut.number] - cut.values[-1] for cut in cuts])
    features = _features(curve, rates.get(curve.number, mean_rate))
    value = curve.values[-1] + _predict_gain(rows, gains, features)
    lowest = min(curve.values[-1], *ends.values())
    return float(min(max(value, lowest), math.nextafter(baseline.best, -math.inf)))


def _cut(curve: TrialCurve, end: float) -> TrialCurve | None:
    """Return a curve up to a step; None if the curve begins later."""
    count = curve.until(end)
    return replace(curve, at=curve.at[:count], values=curve.values[:count]) if count else None


def _features(curve: TrialCurve, rate: float) -> tuple[float, ...]:
    return (curve.values[-1], _slope(curve), rate)


def _predict_gain(rows: Array, gains: Array, curve_features: Sequence[float]) -> float:
    """Return the gain that a ridge regression predicts; features get mean 0 and deviation 1."""
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    features = (rows - mean) / scale
    system = features.T @ features + RIDGE * np.eye(features.shape[1])
    weights = np.linalg.solve(system, features.T @ (gains - gains.mean()))
    return float(gains.mean() + (np.array(curve_features) - mean) / scale @ weights)


def _measurement(
    trial: TrialRecord, metric: Metric, rule: ConvexRule, end: tuple[float, float]
) -> Measurement:
    """Return a trial's predicted last measurement.

    ``end`` is (position, value); the position is in seconds if the rule uses time, else in steps.
    """
    position, value = end
    values = {
        name: reading for measurement in trial.measurements for name, reading in measurement.metrics
    }
    values[metric.metric_id] = upward(metric.goal, value)
    last = trial.measurements[-1]
    step = last.step if rule.by_time else max(last.step, int(position))
    elapsed_s = max(last.elapsed_s, position) if rule.by_time else last.elapsed_s
    return Measurement(step=step, elapsed_s=elapsed_s, metrics=tuple(sorted(values.items())))
