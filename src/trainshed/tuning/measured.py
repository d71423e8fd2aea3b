"""The measurements of a trial as everybody sees them (R19)."""

from collections.abc import Sequence

from trainshed.model.attempt import Report
from trainshed.model.study import StudySpec
from trainshed.model.trials import Measurement, TrialRecord
from trainshed.tuning.measuring import measurements


def measured(
    study: StudySpec, trial: TrialRecord, reports: Sequence[Report]
) -> tuple[Measurement, ...]:
    """What the reports come to; behind them what a stopping rule has predicted for the trial."""
    found = measurements(reports, [metric.metric_id for metric in study.metrics])
    predicted = trial.final if trial.stopped_early else None
    if predicted is None or predicted in found:
        return found
    return (*found, predicted)
