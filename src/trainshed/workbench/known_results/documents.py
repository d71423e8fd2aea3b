"""Reads results from JSON: a list of results, or the document of a tuning job of either API."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trainshed.model.faults import UsageFault
from trainshed.model.study_start import RawValue, ResultRow
from trainshed.model.trials import TrialRecord
from trainshed.workbench.known_results.tables import describe_state
from trainshed.workbench.study_view import is_study, read_view

_ACCEPTED: Final = (
    'a list of objects such as {"parameters": {"lr": 0.1}, "metrics": {"accuracy": 0.9}}, or the '
    "document of a tuning job with its trials"
)


def read_json(text: str, source: str) -> Iterator[ResultRow]:
    """Yield the results of a JSON text.  Raises UsageFault."""
    document = parse_json(text, source)
    if isinstance(document, dict) and is_study(document):
        yield from _read_trials(document, source)
        return
    for name, item in list_items(document, source, _ACCEPTED):
        yield _read_item(item, name)


def parse_json(text: str, source: str) -> Any:
    """Return the value of a JSON text.  Raises UsageFault."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageFault(f"{source} is not JSON: {error}") from error


def list_items(
    document: Any, source: str, accepted: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name and the object of each item of a list.  Raises UsageFault."""
    items: Sequence[Any] = document if isinstance(document, list) else ()
    if not items or not all(isinstance(item, dict) for item in items):
        raise UsageFault(f"{source} must have {accepted}")
    for number, item in enumerate(items, 1):
        yield f"item {number} of {source}", item


def _read_item(item: Mapping[str, Any], name: str) -> ResultRow:
    if "parameters" not in item and "metrics" not in item:
        return ResultRow(name=name, cells=read_values(item, name))
    return ResultRow(
        name=name,
        parameters=read_values(item.get("parameters") or {}, f"{name}: parameters"),
        metrics=read_values(item.get("metrics") or {}, f"{name}: metrics"),
    )


def read_values(values: Any, name: str) -> dict[str, RawValue]:
    """Return numbers, texts and booleans by name; null is left out.  Raises UsageFault."""
    if not isinstance(values, dict):
        raise UsageFault(f"{name} must be an object, got {values!r}"[:300])
    for key, value in values.items():
        if value is not None and not isinstance(value, bool | int | float | str):
            raise UsageFault(f"{name}: {key} must be a number or a text, got {value!r}"[:300])
    return {key: value for key, value in values.items() if value is not None}


def _read_trials(document: Mapping[str, Any], source: str) -> Iterator[ResultRow]:
    view = read_view(document)
    if not view.trials:
        raise UsageFault(f"{source} is a tuning job without trials; describe the job to get them")
    return (_read_trial(trial, source) for trial in view.trials)


def _read_trial(trial: TrialRecord, source: str) -> ResultRow:
    return ResultRow(
        name=f"trial {trial.number} of {source}",
        parameters=dict(trial.values),
        metrics=dict(trial.final.metrics) if trial.final else {},
        fault="" if trial.final else describe_state(trial.state.value),
    )
