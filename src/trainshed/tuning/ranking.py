"""Ranks trials: goals, safety and the Pareto front (docs/sources/vertex.md 8).

A metric with a safety limit is a limit, not an objective.  A trial that breaks a limit, or whose
value is unknown, is never the best: without a safe trial there is no best one.
"""

from collections.abc import Sequence

from trainshed.model.study import Goal, Metric, StudySpec
from trainshed.model.trials import TrialRecord, TrialState


def objectives(study: StudySpec) -> tuple[Metric, ...]:
    """Return the metrics that are optimized, those without a limit, in the study's order."""
    return tuple(metric for metric in study.metrics if metric.safety is None)


def better(goal: Goal, a: float, b: float) -> bool:
    """Whether ``a`` is better than ``b``; of two equal values neither is."""
    return a > b if goal is Goal.MAXIMIZE else a < b


def is_safe(study: StudySpec, trial: TrialRecord) -> bool:
    """Whether a trial meets every limit; a value at the limit does, a missing value does not."""
    return all(meets_limit(metric, trial) for metric in study.metrics)


def meets_limit(metric: Metric, trial: TrialRecord) -> bool:
    """Whether the value of a metric meets its limit; a missing value does not."""
    if metric.safety is None:
        return True
    value = trial.final.value(metric.metric_id) if trial.final else None
    return value is not None and not better(metric.goal, metric.safety.threshold, value)


def final_value(trial: TrialRecord, metric: Metric) -> float | None:
    """Return the final value of a metric; None if the trial has not succeeded or lacks it."""
    if trial.state is not TrialState.SUCCEEDED or trial.final is None:
        return None
    return trial.final.value(metric.metric_id)


def best(study: StudySpec, trials: Sequence[TrialRecord]) -> TrialRecord | None:
    """Return the safe trial with the best final value; of equal ones the first.

    Return None if no safe trial has succeeded, or for several objectives: they need ``pareto``.
    """
    goals = objectives(study)
    if len(goals) != 1:
        return None
    front = pareto(study, trials)
    return front[0] if front else None


def pareto(study: StudySpec, trials: Sequence[TrialRecord]) -> tuple[TrialRecord, ...]:
    """Return the safe trials that no other trial beats, by number, equal trials included.

    One trial beats another if it is better in one objective and worse in none.
    """
    goals = objectives(study)
    rated = [(trial, values) for trial in trials if (values := rating(study, goals, trial))]
    front: list[tuple[float, ...]] = []
    for one in sorted({values for _, values in rated}, reverse=True):
        if not any(beats(other, one) for other in front):  # better trials were sorted before it
            front.append(one)
    unbeaten = frozenset(front)
    front_trials = (trial for trial, values in rated if values in unbeaten)
    return tuple(sorted(front_trials, key=lambda trial: trial.number))


def upward(goal: Goal, value: float) -> float:
    """Return the value with the sign with which more is better."""
    return value if goal is Goal.MAXIMIZE else -value


def rating(
    study: StudySpec, goals: Sequence[Metric], trial: TrialRecord
) -> tuple[float, ...] | None:
    """Return all objectives of a safe trial, more is better; None if the trial does not count."""
    if trial.state is not TrialState.SUCCEEDED or trial.final is None or not is_safe(study, trial):
        return None
    values = [(goal.goal, trial.final.value(goal.metric_id)) for goal in goals]
    upwards = tuple(upward(goal, value) for goal, value in values if value is not None)
    return upwards if len(upwards) == len(goals) else None


def beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether ratings are better in one objective and worse in none."""
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))
