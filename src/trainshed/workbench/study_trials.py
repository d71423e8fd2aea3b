"""The trials of a tuning job's document as records, in either dialect (vertex-sdk.md 7.1 and 8)."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from math import isfinite
from typing import Any, Final

from trainshed.model.study import ParameterKind, StudySpec, parameters_of
from trainshed.model.trials import Measurement, TrialRecord, TrialState, Value, Values

Json = Mapping[str, Any]
Kinds = Mapping[str, ParameterKind]

#: The states of ml v1's trials, which are those of jobs.
ML_STATES: Final[Mapping[str, TrialState]] = {
    "QUEUED": TrialState.ACTIVE,
    "PREPARING": TrialState.ACTIVE,
    "RUNNING": TrialState.ACTIVE,
    "CANCELLING": TrialState.STOPPING,
    "SUCCEEDED": TrialState.SUCCEEDED,
    "FAILED": TrialState.INFEASIBLE,
    "CANCELLED": TrialState.INFEASIBLE,
}
_STATES: Final = {state.value: state for state in TrialState}


def vertex_trials(study: StudySpec, trials: Iterable[Json]) -> Iterator[TrialRecord]:
    """The trials of a HyperparameterTuningJob."""
    kinds = _kinds(study)
    for place, trial in enumerate(trials, 1):
        final = trial.get("finalMeasurement")
        given = ((p["parameterId"], p.get("value")) for p in trial.get("parameters", ()))
        yield TrialRecord(
            number=_number(trial.get("id"), place),
            state=_STATES.get(trial.get("state", ""), TrialState.REQUESTED),
            values=_values(kinds, given),
            measurements=tuple(map(_measurement, trial.get("measurements", ()))),
            final=_measurement(final) if final else None,
            infeasible_reason=trial.get("infeasibleReason"),
            start_time=time_of(trial.get("startTime")),
            end_time=time_of(trial.get("endTime")),
        )


def ml_trials(study: StudySpec, trials: Iterable[Json]) -> Iterator[TrialRecord]:
    """The trials of an ml v1 job's training output: their values are texts, they have one metric.

    One that was cancelled with a metric has come to its end early.
    """
    kinds, tag = _kinds(study), study.metrics[0].metric_id
    for place, trial in enumerate(trials, 1):
        given = trial.get("finalMetric")
        final = _ml_measurement(given, tag) if given else None
        state = ML_STATES.get(trial.get("state", ""), TrialState.REQUESTED)
        if final and state is TrialState.INFEASIBLE and trial.get("isTrialStoppedEarly"):
            state = TrialState.SUCCEEDED
        yield TrialRecord(
            number=_number(trial.get("trialId"), place),
            state=state,
            values=_values(kinds, trial.get("hyperparameters", {}).items()),
            measurements=tuple(_ml_measurement(each, tag) for each in trial.get("allMetrics", ())),
            final=final,
            stopped_early=bool(trial.get("isTrialStoppedEarly")),
            start_time=time_of(trial.get("startTime")),
            end_time=time_of(trial.get("endTime")),
        )


def time_of(stamp: str | None) -> datetime | None:
    """A time of the API; nanoseconds are cut."""
    return datetime.fromisoformat(stamp) if stamp else None


def _kinds(study: StudySpec) -> Kinds:
    return {parameter.parameter_id: parameter.kind for parameter in parameters_of(study)}


def _number(given: Any, place: int) -> int:
    """The trial's own number; its place in the list where that is none."""
    text = str(given or "")
    return int(text) if text.isascii() and text.isdecimal() else place


def _values(kinds: Kinds, given: Iterable[tuple[str, Any]]) -> Values:
    """In the study's order; what it does not know comes last."""
    order = {name: place for place, name in enumerate(kinds)}
    found = [(name, _value(kinds.get(name), value)) for name, value in given if value is not None]
    return tuple(sorted(found, key=lambda each: order.get(each[0], len(order))))


def _value(kind: ParameterKind | None, given: Any) -> Value:
    """A value as its parameter has it: ml v1 writes all of them as texts."""
    if kind is None or kind is ParameterKind.CATEGORICAL:
        return given if kind is None and _is_number(given) else str(given)
    try:
        value = float(given)
    except ValueError:
        return str(given)
    return int(value) if kind is ParameterKind.INTEGER and value.is_integer() else value


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _measurement(given: Json) -> Measurement:
    """A Measurement; proto3's JSON leaves zeros out."""
    metrics = ((each["metricId"], float(each.get("value", 0))) for each in given.get("metrics", ()))
    return Measurement(
        step=int(given.get("stepCount", 0)),
        elapsed_s=float(str(given.get("elapsedDuration", "0")).removesuffix("s")),
        metrics=_finite(metrics),
    )


def _ml_measurement(given: Json, tag: str) -> Measurement:
    value = float(given.get("objectiveValue", 0))
    return Measurement(step=int(given.get("trainingStep", 0)), metrics=_finite([(tag, value)]))


def _finite(metrics: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    return tuple((name, value) for name, value in metrics if isfinite(value))
