"""Converts trials to the Trials of a HyperparameterTuningJob, and back.

The fields of a Trial are in docs/sources/vertex.md 8.  Clients read all trials in the tuning job,
never a single trial (docs/sources/vertex.md 4.5), so that a Trial needs no resource name.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from trainshed.model.durations import duration_of
from trainshed.model.early_stopping import stopping_with_labels
from trainshed.model.study import StudySpec
from trainshed.model.trials import Measurement, TrialRecord, TrialState, TrialView
from trainshed.wire.aiplatform_v1.study import study_of
from trainshed.wire.study_words import finite, kinds_of, number_of, values_of
from trainshed.wire.times import rfc3339, time_of

Json = Mapping[str, Any]

#: The fields of a study that ``read_study`` reads; others may have values of newer servers.
SEARCH: Final = frozenset({"metrics", "parameters"})

#: The known states by name; newer servers may have others.
STATES: Final = {state.value: state for state in TrialState}
#: The states that the API lacks, and those that clients see (docs/sources/vertex.md 8).
_SHOWN: Final = {TrialState.PAUSED: TrialState.ACTIVE}


def trial_json(view: TrialView) -> dict[str, Any]:
    """Render a trial; values keep their types, and inactive parameters are absent."""
    trial = view.trial
    is_good = trial.state is TrialState.SUCCEEDED
    is_bad = trial.state is TrialState.INFEASIBLE
    document = {
        "id": str(trial.number),
        "state": _SHOWN.get(trial.state, trial.state).value,
        "parameters": [{"parameterId": name, "value": value} for name, value in trial.values],
        "measurements": [measurement_json(measurement) for measurement in trial.measurements],
        "finalMeasurement": measurement_json(trial.final) if is_good and trial.final else None,
        "startTime": rfc3339(trial.start_time),
        "endTime": rfc3339(trial.end_time),
        "infeasibleReason": trial.infeasible_reason if is_bad else None,
        "customJob": view.job_name,
    }
    return {name: value for name, value in document.items() if value}


def measurement_json(measurement: Measurement) -> dict[str, Any]:
    """Render the metrics of one step; 64-bit numbers are strings."""
    return {
        "elapsedDuration": duration_of(measurement.elapsed_s),
        "stepCount": str(measurement.step),
        "metrics": [{"metricId": name, "value": value} for name, value in measurement.metrics],
    }


def read_study(job: Json) -> tuple[StudySpec, list[TrialRecord]]:
    """Read the parts of a study that describe its search space and goals, and its trials."""
    study_spec = job["studySpec"]
    study = study_of(
        {**job, "studySpec": {key: study_spec[key] for key in SEARCH & study_spec.keys()}}
    )
    study = replace(study, stopping=stopping_with_labels(study, job.get("labels", {})))
    return study, list(_trials(study, job.get("trials", ())))


def _trials(study: StudySpec, trials: Iterable[Json]) -> Iterator[TrialRecord]:
    kinds = kinds_of(study)
    for position, trial in enumerate(trials, 1):
        final = trial.get("finalMeasurement")
        pairs = ((p["parameterId"], p.get("value")) for p in trial.get("parameters", ()))
        yield TrialRecord(
            number=number_of(trial.get("id"), position),
            state=STATES.get(trial.get("state", ""), TrialState.REQUESTED),
            values=values_of(kinds, pairs),
            measurements=tuple(map(_measurement, trial.get("measurements", ()))),
            final=_measurement(final) if final else None,
            infeasible_reason=trial.get("infeasibleReason"),
            start_time=time_of(trial.get("startTime")),
            end_time=time_of(trial.get("endTime")),
        )


def _measurement(document: Json) -> Measurement:
    """Parse a Measurement; missing numbers are 0, which protobuf's JSON leaves out."""
    metrics = (
        (metric["metricId"], float(metric.get("value", 0)))
        for metric in document.get("metrics", ())
    )
    return Measurement(
        step=int(document.get("stepCount", 0)),
        elapsed_s=float(str(document.get("elapsedDuration", "0")).removesuffix("s")),
        metrics=finite(metrics),
    )
