"""Rules about the parameters of a tuning study: their names and their conditions (R19).

The sources are contracts/vertex-sdk.md 7.1 and 8, and contracts/gcloud.md 10.  Conditional
parameters, at any depth, are judged like the others.  What values a parameter may have is asked in
``parameter_values``.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from trainshed.admission.context import RuleContext, listing
from trainshed.admission.rules.parameter_values import is_near_one
from trainshed.admission.rules.study import broken_study, judged_study
from trainshed.model.faults import Violation
from trainshed.model.study import (
    Condition,
    ParameterKind,
    ParameterSpec,
    StudySpec,
    occurrences,
)
from trainshed.model.study_places import StudyField, StudyPlace, placed

At = tuple[int, ...]


def study_has_parameters(context: RuleContext) -> Iterator[Violation]:
    """At least one parameter, and a name of its own for each that can be there at one time."""
    study = judged_study(context)
    if study is None:
        return
    if not study.parameters:
        message = "a study needs a parameter"
        place = StudyPlace(StudyField.PARAMETERS)
        yield broken_study("study-parameters", place, message, "at least one parameter")
    for at, parameter in placed(study.parameters):
        if not parameter.parameter_id:
            place, message = StudyPlace(StudyField.PARAMETER_ID, at), "a parameter needs a name"
            yield broken_study("study-parameters", place, message, "learning_rate, for example")
    for name, at in _given_twice(study).items():
        message = f"parameter {name}: the name is given twice"
        accepted = "each name once, or under conditions that exclude each other"
        place = StudyPlace(StudyField.PARAMETER_ID, at)
        yield broken_study("study-parameters", place, message, accepted)


def _given_twice(study: StudySpec) -> dict[str, At]:
    """The names that two parameters bear at one time, each once, and where the second one is."""
    seen: dict[str, list[Mapping[object, frozenset[str | float]]]] = {}
    twice: dict[str, At] = {}
    places = (at for at, _ in placed(study.parameters))
    for at, (parameter, conditions) in zip(places, occurrences(study.parameters), strict=True):
        name = parameter.parameter_id
        others = seen.setdefault(name, [])
        if name and not all(_exclude_each_other(conditions, other) for other in others):
            twice.setdefault(name, at)
        others.append(conditions)
    return twice


def _exclude_each_other(
    one: Mapping[object, frozenset[str | float]], other: Mapping[object, frozenset[str | float]]
) -> bool:
    return any(one[parent].isdisjoint(other[parent]) for parent in one.keys() & other.keys())


def study_conditions_can_be_met(context: RuleContext) -> Iterator[Violation]:
    """A conditional parameter names values that its parent has."""
    study = judged_study(context)
    for at, parameter in placed(study.parameters) if study else ():
        for index, condition in enumerate(parameter.conditions):
            place = StudyPlace(StudyField.CONDITION, (*at, index))
            yield from _condition(parameter, condition, place)


def _condition(
    parent: ParameterSpec, condition: Condition, place: StudyPlace
) -> Iterator[Violation]:
    child, takes = condition.parameter.parameter_id, TAKES[parent.kind]
    if not condition.parent_values:
        message = f"no values of {parent.parameter_id} are given under which it exists"
        accepted = _all_values(parent)
        yield broken_study("study-condition", place, f"parameter {child}: {message}", accepted)
    for value in condition.parent_values:
        if not takes(parent, value):
            message = f"{_shown(value)} is no value of its parent {parent.parameter_id}"
            accepted = _all_values(parent)
            yield broken_study("study-condition", place, f"parameter {child}: {message}", accepted)


def _shown(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _all_values(parent: ParameterSpec) -> str:
    if parent.kind is ParameterKind.DOUBLE:
        return "a parent of type INTEGER, CATEGORICAL or DISCRETE"
    if parent.bounds:
        return f"whole numbers from {parent.bounds[0]:g} to {parent.bounds[1]:g}"
    return listing(map(_shown, parent.values)) or f"values that {parent.parameter_id} has"


def _is_in_range(parent: ParameterSpec, value: str | float) -> bool:
    """A parent without bounds is refused for that, and not for its children's sake."""
    if isinstance(value, str) or not float(value).is_integer():
        return False
    return parent.bounds is None or parent.bounds[0] <= value <= parent.bounds[1]


#: Whether a parent of each kind has a value; no value of a DOUBLE can be met for certain.
TAKES: Final[Mapping[ParameterKind, Callable[[ParameterSpec, str | float], bool]]] = {
    ParameterKind.DOUBLE: lambda _parent, _value: False,
    ParameterKind.INTEGER: _is_in_range,
    ParameterKind.CATEGORICAL: lambda parent, value: value in parent.values,
    ParameterKind.DISCRETE: is_near_one,
}
