"""Parses parts of a study that both dialects have: algorithms, goals, scales, bounds, values."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, Final

from trainshed.model.study import Algorithm, Goal, ParameterKind, Scale, StudySpec, parameters_of
from trainshed.model.trials import Value, Values

Kinds = Mapping[str, ParameterKind]

ALGORITHM: Final[Mapping[str, Algorithm]] = {
    "ALGORITHM_UNSPECIFIED": Algorithm.DEFAULT,
    "GRID_SEARCH": Algorithm.GRID_SEARCH,
    "RANDOM_SEARCH": Algorithm.RANDOM_SEARCH,
}
GOAL: Final[Mapping[str, Goal]] = {
    "GOAL_TYPE_UNSPECIFIED": Goal.MAXIMIZE,
    "MAXIMIZE": Goal.MAXIMIZE,
    "MINIMIZE": Goal.MINIMIZE,
}
#: "No scale" is ``NONE`` in ml v1 and ``SCALE_TYPE_UNSPECIFIED`` in aiplatform v1.
SCALE: Final[Mapping[str, Scale]] = {
    "NONE": Scale.NONE,
    "SCALE_TYPE_UNSPECIFIED": Scale.NONE,
    "UNIT_LINEAR_SCALE": Scale.LINEAR,
    "UNIT_LOG_SCALE": Scale.LOG,
    "UNIT_REVERSE_LOG_SCALE": Scale.REVERSE_LOG,
}


def bounds_of(value: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the bounds of a range; None if both are missing.

    A single missing bound is 0, because the SDK leaves out zeros (docs/sources/vertex.md 3).
    """
    if "minValue" not in value and "maxValue" not in value:
        return None
    return float(value.get("minValue", 0)), float(value.get("maxValue", 0))


def kinds_of(study: StudySpec) -> Kinds:
    """Return the kinds of all parameters, by name."""
    return {parameter.parameter_id: parameter.kind for parameter in parameters_of(study)}


def number_of(number: Any, position: int) -> int:
    """Return a trial's number; its position in the list if it has no valid number."""
    text = str(number or "")
    return int(text) if text.isascii() and text.isdecimal() else position


def values_of(kinds: Kinds, pairs: Iterable[tuple[str, Any]]) -> Values:
    """Return the values in the order of the study's parameters; unknown ones come last."""
    order = {name: position for position, name in enumerate(kinds)}
    values = [(name, _value(kinds.get(name), value)) for name, value in pairs if value is not None]
    return tuple(sorted(values, key=lambda pair: order.get(pair[0], len(order))))


def _value(kind: ParameterKind | None, raw: Any) -> Value:
    """Convert a value to the type of its parameter; in ml v1 all values are strings."""
    if kind is None or kind is ParameterKind.CATEGORICAL:
        return raw if kind is None and _is_number(raw) else str(raw)
    try:
        value = float(raw)
    except ValueError:
        return str(raw)
    return int(value) if kind is ParameterKind.INTEGER and value.is_integer() else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def finite(metrics: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """Return the metrics with finite values."""
    return tuple((name, value) for name, value in metrics if isfinite(value))
