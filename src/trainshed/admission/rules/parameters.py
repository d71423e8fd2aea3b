"""Rules about the parameters of a tuning study: names, ranges, values, conditions (R19).

The sources are contracts/vertex-sdk.md 7.1 and 8, and contracts/gcloud.md 10.  Conditional
parameters, at any depth, are judged like the others.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from trainshed.admission.question import Question, listing
from trainshed.admission.rules.study import broken_study, judged_study
from trainshed.model.faults import Violation
from trainshed.model.study import (
    Condition,
    ParameterKind,
    ParameterSpec,
    Scale,
    occurrences,
    parameters_of,
)

DISCRETE_MAX: Final = 1000

#: Discrete values are at least so far apart, and match a condition within this.
DISCRETE_GAP: Final = 1e-10

RANGES: Final = (ParameterKind.DOUBLE, ParameterKind.INTEGER)
LOG_SCALES: Final = (Scale.LOG, Scale.REVERSE_LOG)


def study_has_parameters(question: Question) -> Iterator[Violation]:
    """At least one parameter, and a name of its own for each that can be there at one time."""
    study = judged_study(question)
    if study is None:
        return
    if not study.parameters:
        message = "a study needs a parameter"
        yield broken_study("study-parameters", message, "at least one parameter")
    if not all(parameter.parameter_id for parameter in parameters_of(study)):
        message = "a parameter needs a name"
        yield broken_study("study-parameters", message, "learning_rate, for example")
    for name in _given_twice(study.parameters):
        message = f"parameter {name}: the name is given twice"
        accepted = "each name once, or under conditions that exclude each other"
        yield broken_study("study-parameters", message, accepted)


def _given_twice(parameters: Sequence[ParameterSpec]) -> list[str]:
    """The names that two parameters bear at one time, each once."""
    seen: dict[str, list[Mapping[object, frozenset[str | float]]]] = {}
    twice: dict[str, None] = {}
    for parameter, conditions in occurrences(parameters):
        name = parameter.parameter_id
        others = seen.setdefault(name, [])
        if name and not all(_exclude_each_other(conditions, other) for other in others):
            twice[name] = None
        others.append(conditions)
    return list(twice)


def _exclude_each_other(
    one: Mapping[object, frozenset[str | float]], other: Mapping[object, frozenset[str | float]]
) -> bool:
    return any(one[parent].isdisjoint(other[parent]) for parent in one.keys() & other.keys())


def study_values_are_possible(question: Question) -> Iterator[Violation]:
    """Ranges and lists from which a value can be drawn, on a scale that they have."""
    study = judged_study(question)
    for parameter in parameters_of(study) if study else ():
        if parameter.kind in RANGES:
            yield from _bounds(parameter)
        else:
            yield from _values(parameter)
        yield from _scale(parameter)
        for condition in parameter.conditions:
            yield from _condition(parameter, condition)


def _bounds(parameter: ParameterSpec) -> Iterator[Violation]:
    accepted = "minValue and maxValue, the least first"
    if parameter.bounds is None:
        yield _broken(parameter, "study-bounds", "minValue and maxValue are missing", accepted)
        return
    least, most = parameter.bounds
    if not (math.isfinite(least) and math.isfinite(most)):
        yield _broken(parameter, "study-bounds", "a bound is not finite", accepted)
        return
    if least > most:
        message = f"minValue {least:g} is above maxValue {most:g}"
        yield _broken(parameter, "study-bounds", message, accepted)
    if parameter.kind is ParameterKind.INTEGER:
        for name, bound in (("minValue", least), ("maxValue", most)):
            if not bound.is_integer():
                message = f"{name} {bound:g} is no whole number"
                yield _broken(parameter, "study-bounds", message, "whole numbers for INTEGER")


def _values(parameter: ParameterSpec) -> Iterator[Violation]:
    values = parameter.values
    if not values:
        message = f"a {parameter.kind.value} parameter needs values"
        yield _broken(parameter, "study-values", message, "a list of at least one value")
    if parameter.kind is not ParameterKind.DISCRETE:
        return
    if len(values) > DISCRETE_MAX:
        message = f"{len(values)} discrete values are too many"
        yield _broken(parameter, "study-values", message, f"at most {DISCRETE_MAX}")
    if not _increase([float(value) for value in values]):
        message = "the discrete values are not strictly increasing"
        accepted = f"finite numbers, the least first, {DISCRETE_GAP:g} apart or more"
        yield _broken(parameter, "study-values", message, accepted)


def _increase(values: Sequence[float]) -> bool:
    """The gap is compared with some slack: 1e-10 has no exact form."""
    gap = DISCRETE_GAP * 0.99
    rises = all(one < other and other - one >= gap for one, other in pairwise(values))
    return rises and all(map(math.isfinite, values))


def _scale(parameter: ParameterSpec) -> Iterator[Violation]:
    if parameter.scale not in LOG_SCALES or parameter.kind is ParameterKind.CATEGORICAL:
        return
    numbers = parameter.bounds or tuple(float(value) for value in parameter.values)
    if all(map(math.isfinite, numbers)) and min(numbers, default=1) <= 0:
        message = f"a logarithmic scale needs numbers above 0, not {min(numbers):g}"
        yield _broken(parameter, "study-scale", message, "numbers above 0, or a linear scale")


def _condition(parent: ParameterSpec, condition: Condition) -> Iterator[Violation]:
    child, takes = condition.parameter, TAKES[parent.kind]
    if not condition.parent_values:
        message = f"no values of {parent.parameter_id} are given under which it exists"
        yield _broken(child, "study-condition", message, _all_values(parent))
    for value in condition.parent_values:
        if not takes(parent, value):
            message = f"{value} is no value of its parent {parent.parameter_id}"
            yield _broken(child, "study-condition", message, _all_values(parent))


def _all_values(parent: ParameterSpec) -> str:
    if parent.kind is ParameterKind.DOUBLE:
        return "a parent of type INTEGER, CATEGORICAL or DISCRETE"
    if parent.bounds:
        return f"whole numbers from {parent.bounds[0]:g} to {parent.bounds[1]:g}"
    return listing(parent.values) or f"values that {parent.parameter_id} has"


def _is_in_range(parent: ParameterSpec, value: str | float) -> bool:
    """A parent without bounds is refused for that, and not for its children's sake."""
    if isinstance(value, str) or not float(value).is_integer():
        return False
    return parent.bounds is None or parent.bounds[0] <= value <= parent.bounds[1]


def _is_near_one(parent: ParameterSpec, value: str | float) -> bool:
    if isinstance(value, str):
        return False
    return any(abs(float(each) - value) <= DISCRETE_GAP for each in parent.values)


#: Whether a parent of each kind has a value; no value of a DOUBLE can be met for certain.
TAKES: Final[Mapping[ParameterKind, Callable[[ParameterSpec, str | float], bool]]] = {
    ParameterKind.DOUBLE: lambda _parent, _value: False,
    ParameterKind.INTEGER: _is_in_range,
    ParameterKind.CATEGORICAL: lambda parent, value: value in parent.values,
    ParameterKind.DISCRETE: _is_near_one,
}


def _broken(parameter: ParameterSpec, rule: str, what: str, accepted: str) -> Violation:
    return broken_study(rule, f"parameter {parameter.parameter_id}: {what}", accepted)
