"""Trials of a study as the HyperparameterOutputs of a Job (contracts/vertex-sdk.md 7.1).

gcloud sorts them itself.  Programs take the first for the best one, so it is.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from trainshed.model.status import JobState
from trainshed.model.study import Goal, Metric, StudySpec
from trainshed.model.trials import Measurement, TrialRecord, TrialState, TrialView, text_of
from trainshed.wire.ml_v1.listing import STATE
from trainshed.wire.times import rfc3339

#: What a trial is called whose job has ended while the study has yet to say what came of it.
UNSETTLED: Final[Mapping[TrialState, str]] = {
    TrialState.ACTIVE: STATE[JobState.RUNNING],
    TrialState.STOPPING: STATE[JobState.CANCELLING],
}


def study_output(study: StudySpec, trials: Sequence[TrialView]) -> dict[str, Any]:
    """The part of a TrainingOutput that only a tuning job has.

    With no trials it says nothing of their number: the caller may not have asked for them.
    """
    metric = study.metrics[0]
    found = {"isHyperparameterTuningJob": True, "hyperparameterMetricTag": metric.metric_id}
    if not trials:
        return found
    good = sum(view.trial.state is TrialState.SUCCEEDED for view in trials)
    ordered = sorted(trials, key=lambda view: _rank(view.trial, metric))
    return {
        **found,
        "completedTrialCount": str(good),
        "trials": [trial_json(view, metric) for view in ordered],
    }


def trial_json(view: TrialView, metric: Metric) -> dict[str, Any]:
    """A trial; the values of its parameters are texts, as its program had them."""
    trial = view.trial
    found = {
        "trialId": str(trial.number),
        "state": _state(view),
        "hyperparameters": {name: text_of(value) for name, value in trial.values},
        "finalMetric": _metric_json(trial.final, metric) if _is_good(trial) else None,
        "isTrialStoppedEarly": trial.stopped_early,
        "startTime": rfc3339(trial.start_time),
        "endTime": rfc3339(trial.end_time),
    }
    return {name: value for name, value in found.items() if value}


def _state(view: TrialView) -> str:
    """The state of a trial in the words of jobs; there are no others here."""
    trial, job = view.trial, view.job_state
    if trial.state is TrialState.SUCCEEDED:
        return STATE[JobState.SUCCEEDED]
    if trial.state is TrialState.INFEASIBLE:
        return STATE[job if job is JobState.CANCELLED else JobState.FAILED]
    if trial.state is TrialState.REQUESTED:
        return STATE[JobState.QUEUED]
    return UNSETTLED[trial.state] if job.is_final else STATE[job]


def _metric_json(final: Measurement | None, metric: Metric) -> dict[str, Any] | None:
    value = final.value(metric.metric_id) if final else None
    if final is None or value is None:
        return None
    return {"trainingStep": str(final.step), "objectiveValue": value}


def _rank(trial: TrialRecord, metric: Metric) -> tuple[bool, float, int]:
    """The best first; those without a result last, by number."""
    value = trial.final.value(metric.metric_id) if trial.final and _is_good(trial) else None
    if value is None:
        return True, 0.0, trial.number
    return False, -value if metric.goal is Goal.MAXIMIZE else value, trial.number


def _is_good(trial: TrialRecord) -> bool:
    return trial.state is TrialState.SUCCEEDED
