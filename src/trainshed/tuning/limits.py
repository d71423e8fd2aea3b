"""Says which limits of a study its trials break, and how many trials are safe.

A limit is a metric with a safety threshold (docs/sources/vertex.md 8).  ``ranking`` decides whether
a trial is safe; this module explains it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trainshed.model.study import Goal, Metric, Safety, StudySpec
from trainshed.model.trials import BrokenLimit, TrialRecord, TrialState, format_short, text_of
from trainshed.tuning.ranking import is_safe, meets_limit


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeCount:
    """The number of safe trials among those that have ended, infeasible ones included."""

    safe: int
    ended: int
    fraction_min: float
    """The share of safe trials that the study aims at (0..1); 0 if it aims at none."""


def broken_limits(study: StudySpec, trial: TrialRecord) -> tuple[BrokenLimit, ...]:
    """Return the limits that a trial's result breaks; none for a trial without a result."""
    if trial.state is not TrialState.SUCCEEDED:
        return ()
    return tuple(
        _describe_break(metric, metric.safety, trial)
        for metric in study.metrics
        if metric.safety and not meets_limit(metric, trial)
    )


def count_safe(study: StudySpec, trials: Sequence[TrialRecord]) -> SafeCount | None:
    """Count the safe trials as the search does; None for a study without limits."""
    limits = [metric.safety for metric in study.metrics if metric.safety]
    if not limits:
        return None
    ended = [trial for trial in trials if trial.state.is_final]
    return SafeCount(
        safe=sum(t.state is TrialState.SUCCEEDED and is_safe(study, t) for t in ended),
        ended=len(ended),
        fraction_min=max(limit.fraction_min for limit in limits),
    )


def describe_limit(metric: Metric, limit: Safety) -> str:
    """Describe a limit, as in ``size at most 0.6``."""
    side = "at least" if metric.goal is Goal.MAXIMIZE else "at most"
    return f"{metric.metric_id} {side} {format_short(limit.threshold)}"


def describe_safety(study: StudySpec, trials: Sequence[TrialRecord]) -> str:
    """Name the limits, the share of safe trials and the desired one; empty without limits."""
    count = count_safe(study, trials)
    if count is None:
        return ""
    names = ", ".join(describe_limit(m, m.safety) for m in study.metrics if m.safety)
    desired = f"; the study aims at {count.fraction_min:.0%}" if count.fraction_min else ""
    share = f" ({count.safe / count.ended:.0%})" if count.ended else ""
    return f"{names}: {count.safe} of {count.ended} ended trials are safe{share}{desired}"


def _describe_break(metric: Metric, limit: Safety, trial: TrialRecord) -> BrokenLimit:
    name, value = metric.metric_id, trial.final.value(metric.metric_id) if trial.final else None
    sign = "<" if metric.goal is Goal.MAXIMIZE else ">"
    reason = f"{name} was not measured"
    if value is not None:
        pair = format_short(value), format_short(limit.threshold)
        left, right = pair if pair[0] != pair[1] else (text_of(value), text_of(limit.threshold))
        reason = f"{name} {left} {sign} {right}"
    return BrokenLimit(metric=name, value=value, threshold=limit.threshold, reason=reason)
