"""Selects trials to be stopped early, and predicts the results of stopped ones.

The rules are those of docs/sources/vertex.md 8 and ``asha``, one file each.  They judge ACTIVE
trials only, by one objective: trials of a study with several objectives are never stopped early.
No rule stops the trial with the best value of all.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from trainshed.model.study import (
    AshaRule,
    ConvexRule,
    DecayCurveRule,
    MedianRule,
    Metric,
    StudySpec,
)
from trainshed.model.trials import EarlyStop, Measurement, TrialRecord, TrialState
from trainshed.tuning.asha import stopped_by_asha
from trainshed.tuning.convex import predictions, stopped_by_convex
from trainshed.tuning.curves import curves
from trainshed.tuning.decay_curve import stopped_by_decay_curve
from trainshed.tuning.median import stopped_by_median
from trainshed.tuning.ranking import objectives

Judge = Callable[[StudySpec, Metric, Any, Sequence[TrialRecord]], Mapping[int, EarlyStop]]

#: The function of each rule.
JUDGES: Final[Mapping[type, Judge]] = {
    MedianRule: stopped_by_median,
    DecayCurveRule: stopped_by_decay_curve,
    ConvexRule: stopped_by_convex,
    AshaRule: stopped_by_asha,
}


def to_stop(study: StudySpec, trials: Sequence[TrialRecord]) -> Mapping[int, EarlyStop]:
    """Return the evidence against each ACTIVE trial to stop, by number."""
    metric = _objective(study)
    if study.stopping is None or metric is None:
        return {}
    judged = JUDGES[type(study.stopping)](study, metric, study.stopping, trials)
    leaders = _leaders(metric, trials) if judged else frozenset()
    return {number: judged[number] for number in sorted(judged) if number not in leaders}


def predicted(study: StudySpec, trials: Sequence[TrialRecord]) -> Mapping[int, Measurement]:
    """Return the final measurements of trials that were stopped early, by number.

    Only ``ConvexRule`` predicts.  For each STOPPING trial it returns the ``final`` value to store
    at its end, and with ``update_all_stopped_trials`` also the new value of SUCCEEDED ones.  Trials
    that are absent keep their own measurements.
    """
    metric = _objective(study)
    if metric is None or not isinstance(study.stopping, ConvexRule):
        return {}
    return predictions(study, metric, study.stopping, trials)


def _objective(study: StudySpec) -> Metric | None:
    """Return the only objective; None if there are several."""
    goals = objectives(study)
    return goals[0] if len(goals) == 1 else None


def _leaders(metric: Metric, trials: Sequence[TrialRecord]) -> frozenset[int]:
    """Return the numbers of the trials that have measured the best value of all."""
    counted = (trial for trial in trials if trial.state is not TrialState.INFEASIBLE)
    all_curves = curves(metric, counted, by_time=False)
    top = max((curve.best for curve in all_curves), default=0.0)
    return frozenset(curve.number for curve in all_curves if curve.best == top)
