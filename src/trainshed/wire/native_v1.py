"""Documents of the native API below ``/trainshed/v1``: explanations, log lines, trials.

Google's documents of trials are incomplete: Vertex's lack early stops, those of ml v1 the reasons
of missing results and the measurements of running trials (docs/sources/vertex.md 7.1 and 8).
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from trainshed.model.explanation import Explanation
from trainshed.model.log_line import LogLine
from trainshed.model.trials import Measurement, TrialRecord, TrialView
from trainshed.wire.times import timestamp

Json = Mapping[str, Any]

_UNITS: Final = {"s": "seconds", "w": "watts", "c": "celsius", "gb": "gigabytes"}


def json_name(name: str) -> str:
    """The name that a field has in JSON: camelCase, with its unit as a whole word."""
    first, *words = (_UNITS.get(word, word) for word in name.split("_"))
    return first + "".join(map(str.capitalize, words))


def trial_json(view: TrialView) -> dict[str, Any]:
    """A trial in short; ``step`` and ``metrics`` are those of its latest measurement."""
    trial = view.trial
    last = latest(trial)
    document = {
        "number": trial.number,
        "state": trial.state.value,
        "jobState": view.job_state.value,
        "stoppedEarly": trial.stopped_early,
        "step": last.step if last else None,
        "metrics": dict(last.metrics) if last else {},
        "infeasibleReason": trial.infeasible_reason,
    }
    return {name: value for name, value in document.items() if value is not None}


def completed(trial: TrialRecord, native: Json) -> TrialRecord:
    """A trial of a document with what the document does not say of it."""
    measurements = trial.measurements or (() if trial.final else _read_measurements(native))
    return replace(
        trial,
        measurements=measurements,
        stopped_early=trial.stopped_early or bool(native.get("stoppedEarly")),
        infeasible_reason=trial.infeasible_reason or native.get("infeasibleReason"),
    )


def latest(trial: TrialRecord) -> Measurement | None:
    """What a trial ended with; before that, what it measured last."""
    return trial.final or (trial.measurements[-1] if trial.measurements else None)


def _read_measurements(native: Json) -> tuple[Measurement, ...]:
    metrics = tuple((str(name), float(value)) for name, value in native.get("metrics", {}).items())
    return (Measurement(step=int(native.get("step", 0)), metrics=metrics),) if metrics else ()


def explanation_json(explanation: Explanation, position: int | None) -> dict[str, Any]:
    """An explanation as the native API shows it; the next job's position is 1."""
    document: dict[str, Any] = {
        "reason": explanation.reason.value,
        "message": explanation.message,
        "blockers": list(explanation.blockers),
        "queuePosition": position,
        "since": None if explanation.since_s is None else timestamp(int(explanation.since_s * 1e9)),
    }
    if change := explanation.change:
        document["change"] = asdict(change)
    return {name: value for name, value in document.items() if value is not None}


def score_json(content: Json | None) -> dict[str, Any] | None:
    """What the store keeps of a prediction and its job, under the API's names."""
    return None if content is None else {json_name(key): value for key, value in content.items()}


def line_json(line: LogLine) -> dict[str, Any]:
    """A line of a log; the stream has one such object a line."""
    document = {
        "time": timestamp(line.stamp_ns),
        "task": line.task_name,
        "severity": line.severity,
        "message": line.text,
    }
    return {**document, "trial": line.trial} if line.trial else document
