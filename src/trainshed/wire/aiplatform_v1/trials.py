"""Trials of a study as the Trials of a HyperparameterTuningJob (contracts/vertex-sdk.md 8).

Clients read them in the tuning job: there is no call for a trial of its own, so none has a name.
"""

from collections.abc import Mapping
from typing import Any, Final

from trainshed.model.durations import duration_of
from trainshed.model.trials import Measurement, TrialState, TrialView
from trainshed.wire.times import rfc3339

#: This dialect's word for every state of a trial.
STATE: Final[Mapping[TrialState, str]] = {
    TrialState.REQUESTED: "REQUESTED",
    TrialState.ACTIVE: "ACTIVE",
    TrialState.STOPPING: "STOPPING",
    TrialState.SUCCEEDED: "SUCCEEDED",
    TrialState.INFEASIBLE: "INFEASIBLE",
}


def trial_json(view: TrialView) -> dict[str, Any]:
    """A trial; numbers stay numbers, and an inactive parameter is absent."""
    trial = view.trial
    is_good = trial.state is TrialState.SUCCEEDED
    is_bad = trial.state is TrialState.INFEASIBLE
    found = {
        "id": str(trial.number),
        "state": STATE[trial.state],
        "parameters": [{"parameterId": name, "value": value} for name, value in trial.values],
        "measurements": [measurement_json(each) for each in trial.measurements],
        "finalMeasurement": measurement_json(trial.final) if is_good and trial.final else None,
        "startTime": rfc3339(trial.start_time),
        "endTime": rfc3339(trial.end_time),
        "infeasibleReason": trial.infeasible_reason if is_bad else None,
        "customJob": view.job_name,
    }
    return {name: value for name, value in found.items() if value}


def measurement_json(measurement: Measurement) -> dict[str, Any]:
    """The metrics of one step; 64-bit numbers are texts."""
    return {
        "elapsedDuration": duration_of(measurement.elapsed_s),
        "stepCount": str(measurement.step),
        "metrics": [{"metricId": name, "value": value} for name, value in measurement.metrics],
    }
