"""Parts of a study that both dialects share: algorithms, goals, scales, bounds, values."""

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
    """The bounds of a range; None when neither is given.

    One that is not given beside the other is 0: the SDK leaves zeros out
    (docs/sources/vertex.md 3).
    """
    if "minValue" not in value and "maxValue" not in value:
        return None
    return float(value.get("minValue", 0)), float(value.get("maxValue", 0))


def kinds_of(study: StudySpec) -> Kinds:
    """The kinds of all parameters, by name."""
    return {parameter.parameter_id: parameter.kind for parameter in parameters_of(study)}


def number_of(number: Any, place: int) -> int:
    """The trial's own number; its place in the list where that is none."""
    text = str(number or "")
    return int(text) if text.isascii() and text.isdecimal() else place


def values_of(kinds: Kinds, pairs: Iterable[tuple[str, Any]]) -> Values:
    """In the study's order; what it does not know comes last."""
    order = {name: place for place, name in enumerate(kinds)}
    values = [(name, _value(kinds.get(name), value)) for name, value in pairs if value is not None]
    return tuple(sorted(values, key=lambda pair: order.get(pair[0], len(order))))


def _value(kind: ParameterKind | None, raw: Any) -> Value:
    """A value as its parameter has it: ml v1 writes all of them as texts."""
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
    """The metrics that are numbers."""
    return tuple((name, value) for name, value in metrics if isfinite(value))
