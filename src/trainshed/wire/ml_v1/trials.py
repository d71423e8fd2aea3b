"""Converts trials to the HyperparameterOutputs of a Job, and back.

The fields of a HyperparameterOutput are in docs/sources/vertex.md 7.1.  gcloud sorts the outputs
itself (docs/sources/gcloud.md 3.3).  Programs expect that the first output is the best one, so the
outputs are sorted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from trainshed.model.early_stopping import stopping_with_labels
from trainshed.model.status import JobState
from trainshed.model.study import Goal, Metric, StudySpec
from trainshed.model.trials import Measurement, TrialRecord, TrialState, TrialView, text_of
from trainshed.wire.ml_v1.study import study_of
from trainshed.wire.status import STATE
from trainshed.wire.study_words import finite, kinds_of, number_of, values_of
from trainshed.wire.times import rfc3339, time_of

Json = Mapping[str, Any]

#: The state of a trial whose job has ended and which the study has not evaluated yet.
UNSETTLED: Final[Mapping[TrialState, str]] = {
    TrialState.ACTIVE: STATE[JobState.RUNNING],
    TrialState.PAUSED: STATE[JobState.RUNNING],
    TrialState.STOPPING: STATE[JobState.CANCELLING],
}

#: The state of a trial, by the state of its job.
TRIAL_STATES: Final[Mapping[str, TrialState]] = {
    "QUEUED": TrialState.ACTIVE,
    "PREPARING": TrialState.ACTIVE,
    "RUNNING": TrialState.ACTIVE,
    "CANCELLING": TrialState.STOPPING,
    "SUCCEEDED": TrialState.SUCCEEDED,
    "FAILED": TrialState.INFEASIBLE,
    "CANCELLED": TrialState.INFEASIBLE,
}


def study_output(study: StudySpec, trials: Sequence[TrialView]) -> dict[str, Any]:
    """Return the part of a TrainingOutput that only a tuning job has.

    Without trials their count is left out, because the caller may not have requested them.
    """
    metric = study.metrics[0]
    output = {"isHyperparameterTuningJob": True, "hyperparameterMetricTag": metric.metric_id}
    if not trials:
        return output
    good = sum(view.trial.state is TrialState.SUCCEEDED for view in trials)
    ordered = sorted(trials, key=lambda view: _rank(view.trial, metric))
    return {
        **output,
        "completedTrialCount": str(good),
        "trials": [trial_json(view, metric) for view in ordered],
    }


def trial_json(view: TrialView, metric: Metric) -> dict[str, Any]:
    """Render a trial; the values of parameters are strings, as its program got them."""
    trial = view.trial
    document = {
        "trialId": str(trial.number),
        "state": _state(view),
        "hyperparameters": {name: text_of(value) for name, value in trial.values},
        "finalMetric": _metric_json(trial.final, metric) if _is_good(trial) else None,
        "isTrialStoppedEarly": trial.stopped_early,
        "startTime": rfc3339(trial.start_time),
        "endTime": rfc3339(trial.end_time),
    }
    return {name: value for name, value in document.items() if value}


def _state(view: TrialView) -> str:
    """Return the state of a trial as a state of jobs; the dialect has no states of trials."""
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
    """Return a sort key: the best trial first, trials without a result last, by number."""
    value = trial.final.value(metric.metric_id) if trial.final and _is_good(trial) else None
    if value is None:
        return True, 0.0, trial.number
    return False, -value if metric.goal is Goal.MAXIMIZE else value, trial.number


def _is_good(trial: TrialRecord) -> bool:
    return trial.state is TrialState.SUCCEEDED


def read_study(job: Json) -> tuple[StudySpec, list[TrialRecord]]:
    """Read the parts of a study that describe its search space and goals, and its trials.

    Raises KeyError or TypeError for a job without a study.
    """
    spec = job["trainingInput"]["hyperparameters"]
    study = study_of({key: value for key, value in spec.items() if key != "algorithm"})
    if study is None:
        raise TypeError("trainingInput.hyperparameters must be an object, got null")
    study = replace(study, stopping=stopping_with_labels(study, job.get("labels", {})))
    return study, list(_trials(study, job.get("trainingOutput", {}).get("trials", ())))


def _trials(study: StudySpec, trials: Iterable[Json]) -> Iterator[TrialRecord]:
    """Parse the trials of a training output, whose values are strings.

    A failed or cancelled trial with a metric that was stopped early counts as SUCCEEDED.
    """
    kinds, tag = kinds_of(study), study.metrics[0].metric_id
    for position, trial in enumerate(trials, 1):
        final_metric = trial.get("finalMetric")
        final = _measurement(final_metric, tag) if final_metric else None
        state = TRIAL_STATES.get(trial.get("state", ""), TrialState.REQUESTED)
        if final and state is TrialState.INFEASIBLE and trial.get("isTrialStoppedEarly"):
            state = TrialState.SUCCEEDED
        yield TrialRecord(
            number=number_of(trial.get("trialId"), position),
            state=state,
            values=values_of(kinds, trial.get("hyperparameters", {}).items()),
            measurements=tuple(_measurement(metric, tag) for metric in trial.get("allMetrics", ())),
            final=final,
            stopped_early=bool(trial.get("isTrialStoppedEarly")),
            start_time=time_of(trial.get("startTime")),
            end_time=time_of(trial.get("endTime")),
        )


def _measurement(document: Json, tag: str) -> Measurement:
    value = float(document.get("objectiveValue", 0))
    return Measurement(step=int(document.get("trainingStep", 0)), metrics=finite([(tag, value)]))
