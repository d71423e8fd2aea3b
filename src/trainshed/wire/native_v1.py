"""The native API below ``/trainshed/v1``: the names of its fields, and documents for clients.

Each response is one dataclass.  FastAPI derives its schema and its JSON from the configuration of
``Answer``, also for values of the model in it.

The native API has data of trials that Google's documents lack: early stops in aiplatform v1, and in
ml v1 reasons of missing results and measurements of running trials (docs/sources/vertex.md 7.1, 8).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeVar

from trainshed.model.explanation import Change, Explanation, Reason
from trainshed.model.log_line import LogLine
from trainshed.model.status import JobState
from trainshed.model.trials import (
    BrokenLimit,
    EarlyStop,
    Measurement,
    TrialOrigin,
    TrialRecord,
    TrialState,
    TrialView,
)
from trainshed.wire.times import rfc3339, timestamp

Json = Mapping[str, Any]

_UNITS: Final = {"s": "seconds", "w": "watts", "c": "celsius", "gb": "gigabytes"}


def json_name(name: str) -> str:
    """Return the name of a field in JSON: camelCase, with the unit as a whole word."""
    first, *words = (_UNITS.get(word, word) for word in name.split("_"))
    return first + "".join(map(str.capitalize, words))


_A = TypeVar("_A", bound="Answer")


class Answer:
    """The base of responses.  The docstrings of a subclass describe the document to clients."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]
    __pydantic_config__: ClassVar[Any] = {"alias_generator": json_name}


@contextmanager
def described_fields() -> Iterator[None]:
    """Let schemas that the block makes have the docstrings of fields.

    Others have none: reading them from the sources takes as long as all the rest of a schema.
    """
    Answer.__pydantic_config__["use_attribute_docstrings"] = True
    try:
        yield
    finally:
        del Answer.__pydantic_config__["use_attribute_docstrings"]


def answer_of(kind: type[_A], value: object, /, **others: Any) -> _A:
    """Make a ``kind`` from the attributes of ``value`` with the same names, and ``others``."""
    names = kind.__dataclass_fields__
    attributes = {name: getattr(value, name) for name in names if hasattr(value, name)}
    return kind(**(attributes | others))


def document(answer: Answer) -> dict[str, Any]:
    """Render an answer as the API does, without a server; fields that are None are left out."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - most commands need none

    adapter = TypeAdapter(type(answer))
    written = adapter.dump_python(answer, mode="json", by_alias=True, exclude_none=True)
    return dict(written)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstPointPlace(Answer):
    """Which first point of its study a trial has."""

    position: int
    """The number of the point among all first points, from 1."""
    source: str | None = None
    """The place in a file, such as ``line 3 of points.csv``; absent for a point of no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSummary(Answer):
    """A trial of a tuning job; ``step`` and ``metrics`` are those of its latest measurement."""

    number: int
    state: TrialState
    job_state: JobState
    stopped_early: bool
    step: int | None = None
    metrics: Mapping[str, float]
    infeasible_reason: str | None = None
    parameters: Mapping[str, float | int | str]
    """The values by parameter; parameters that are not active in this trial are absent."""
    job: str
    """The id of its job in this API: a number."""
    start_time: str | None = None
    end_time: str | None = None
    early_stop: EarlyStop | None = None
    """Why a rule stopped or paused it; absent for trials that an older version of the server
    stopped."""
    origin: TrialOrigin | None = None
    """``FIRST_POINT``: the caller wanted this point to be tried before the search.  ``DEFAULTS``:
    the first trial, with the default values.  Absent: the study's algorithm chose it."""
    first_point: FirstPointPlace | None = None
    """Where a ``FIRST_POINT`` is from."""
    broken_limits: Sequence[BrokenLimit] | None = None
    """The limits that its result does not meet; absent if it meets all or has no result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRemarks:
    """What is known of a trial beside its record; the fields are those of ``TrialSummary``."""

    early_stop: EarlyStop | None = None
    origin: TrialOrigin = TrialOrigin.SEARCH
    first_point: FirstPointPlace | None = None
    broken_limits: Sequence[BrokenLimit] = ()


def trial_summary(
    view: TrialView, job_uid: int, remarks: TrialRemarks | None = None
) -> TrialSummary:
    """Return the summary of a trial."""
    trial, remarks = view.trial, remarks or TrialRemarks()
    last = latest(trial)
    return answer_of(
        TrialSummary,
        trial,
        job_state=view.job_state,
        step=last.step if last else None,
        metrics=dict(last.metrics) if last else {},
        parameters=dict(trial.values),
        job=str(job_uid),
        start_time=rfc3339(trial.start_time),
        end_time=rfc3339(trial.end_time),
        early_stop=remarks.early_stop,
        origin=None if remarks.origin is TrialOrigin.SEARCH else remarks.origin,
        first_point=remarks.first_point,
        broken_limits=remarks.broken_limits or None,
    )


def describe_place(place: Json) -> str:
    """Describe a ``FirstPointPlace``, such as ``line 3 of points.csv`` or ``point 2``."""
    return str(place.get("source") or f"point {place['position']}")


def completed(trial: TrialRecord, native: Json) -> TrialRecord:
    """Add the values of the native API to a trial that was read from a document of a dialect."""
    measurements = trial.measurements or (() if trial.final else _read_measurements(native))
    return replace(
        trial,
        state=TrialState.PAUSED if _is_paused(trial, native) else trial.state,
        measurements=measurements,
        stopped_early=trial.stopped_early or bool(native.get("stoppedEarly")),
        infeasible_reason=trial.infeasible_reason or native.get("infeasibleReason"),
    )


def _is_paused(trial: TrialRecord, native: Json) -> bool:
    """Whether a trial is paused; the documents of the dialects have no such state."""
    return not trial.state.is_final and native.get("state") == TrialState.PAUSED.value


def latest(trial: TrialRecord) -> Measurement | None:
    """Return the final measurement of a trial, or its newest one before its end."""
    return trial.final or (trial.measurements[-1] if trial.measurements else None)


def _read_measurements(native: Json) -> tuple[Measurement, ...]:
    metrics = tuple((str(name), float(value)) for name, value in native.get("metrics", {}).items())
    return (Measurement(step=int(native.get("step", 0)), metrics=metrics),) if metrics else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(Answer):
    """Why a job waits."""

    reason: Reason
    message: str
    blockers: Sequence[str] = ()
    """Jobs, quotas and nodes that block it; at most ten, the last one counts the rest."""
    queue_position: int | None = None
    """The position of the job in its queue, from 1."""
    since: str | None = None
    """When the reason began; only for a reason from the queue of an engine."""
    change: Change | None = None


def waiting_for(explanation: Explanation, position: int | None) -> Waiting:
    """Return an explanation with the position of the job in a queue."""
    since_s = explanation.since_s
    since = None if since_s is None else timestamp(int(since_s * 1e9))
    return answer_of(Waiting, explanation, queue_position=position, since=since)


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionScore(Answer):
    """The predicted and the measured time of all steps of a job."""

    job: str
    accelerators: int
    hosts: int
    steps: int
    predicted_s: Sequence[float]
    """The 80 % interval's low end, the point, and the high end."""
    took_s: float
    inside: bool
    """Whether the measured time is in the interval."""
    goodput: float | None = None
    """The goodput of the whole job; None if it is unknown."""
    class_: str
    """The kind of extrapolation from the measured counts of hosts and accelerators."""
    cost: float | None = None
    predicted_cost: float | None = None
    currency: str | None = None
    sentence: str


def prediction_score(content: Json) -> PredictionScore:
    """Convert a stored score, which has the names of ``JobOutcome.numbers``."""
    names = PredictionScore.__dataclass_fields__
    values: dict[str, Any] = {name: content.get(name.rstrip("_")) for name in names}
    return PredictionScore(**values)


def line_json(line: LogLine) -> dict[str, Any]:
    """Render a line of a log; a stream has one such object per line."""
    document = {
        "time": timestamp(line.stamp_ns),
        "task": line.task_name,
        "severity": line.severity,
        "message": line.text,
    }
    return {**document, "trial": line.trial} if line.trial else document
