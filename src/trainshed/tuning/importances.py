"""Computes how much each parameter of a study decides a trial's result (PED-ANOVA).

A parameter is important if its values among the best tenth of the trials differ from its values
among all trials.  Optuna computes it, as for the report of a study.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Final

from trainshed.model.study import Metric, StudySpec
from trainshed.model.trials import TrialRecord
from trainshed.tuning.optuna_studies import axes_of, optuna_study
from trainshed.tuning.ranking import final_value

#: The fewest trials for importances: PED-ANOVA compares the best tenth with the others.
IMPORTANCE_TRIALS_MIN: Final = 5
#: The most trials to compute importances from, the newest ones: 10,000 take about half a second.
IMPORTANCE_TRIALS_MAX: Final = 10_000


def valued_trials(metric: Metric, trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Return the succeeded trials that have a final value of the metric."""
    return [trial for trial in trials if final_value(trial, metric) is not None]


def importances(
    study: StudySpec, metric: Metric, trials: Sequence[TrialRecord]
) -> Mapping[str, float]:
    """Return the share of each parameter by its id, the largest first; the shares add up to 1.

    ``trials`` are those of ``valued_trials``.  Return nothing for fewer than
    ``IMPORTANCE_TRIALS_MIN`` trials, and for trials without parameters.
    """
    if len(trials) < IMPORTANCE_TRIALS_MIN:
        return {}
    from optuna.importance import get_param_importances  # noqa: PLC0415  # scikit-learn: a second

    axes = axes_of(study, trials)
    ids = {label: parameter for parameter, label in axes.labels.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna's remarks on small studies
        shares = get_param_importances(optuna_study(study, trials, axes, [metric]))
    ranked = sorted(shares.items(), key=lambda share: (-share[1], share[0]))
    return {ids[label]: share for label, share in ranked}
