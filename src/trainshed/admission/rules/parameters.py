"""Rules about the parameters of a tuning study: their names and their conditions.

The sources are docs/sources/vertex.md 7.1 and 8.  The rules check conditional parameters, at any
depth, like the others.  ``parameter_values`` has the rules about the values of a parameter.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from trainshed.admission.context import RuleContext
from trainshed.admission.rules.parameter_values import near_one, shown_id
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
from trainshed.model.texts import join_or

At = tuple[int, ...]


def study_has_parameters(context: RuleContext) -> Iterator[Violation]:
    """A study has parameters; those that can exist at one time have different names.

    A study that continues another one may have that study's parameters.
    """
    study = judged_study(context)
    if study is None:
        return
    if not (study.parameters or study.resume_previous_job_id):
        message = "a study needs at least one parameter"
        place = StudyPlace(StudyField.PARAMETERS)
        yield broken_study("study-parameters", place, message, "at least one parameter")
    for position, parameter in placed(study.parameters):
        if not parameter.parameter_id:
            place, message = (
                StudyPlace(StudyField.PARAMETER_ID, position),
                "a parameter needs a name",
            )
            yield broken_study("study-parameters", place, message, "learning_rate, for example")
    for name, position in _find_duplicates(study).items():
        message = f"parameter {name}: the name is given twice"
        accepted = "each name once, or under conditions that exclude each other"
        place = StudyPlace(StudyField.PARAMETER_ID, position)
        yield broken_study("study-parameters", place, message, accepted)


def _find_duplicates(study: StudySpec) -> dict[str, At]:
    """Return each name that two parameters can have at one time, with the second one's position."""
    bearers: dict[str, _Bearers] = {}
    twice: dict[str, At] = {}
    places = (position for position, _ in placed(study.parameters))
    for position, (parameter, conditions) in zip(
        places, occurrences(study.parameters), strict=True
    ):
        name = parameter.parameter_id
        if name and name not in twice and not bearers.setdefault(name, _Bearers()).add(conditions):
            twice[name] = position
    return twice


Conditions = Mapping[object, frozenset[str | float]]


class _Bearers:
    """The parameters with one name.  No two of them can exist at one time.

    ``add`` compares a parameter with few others, because a study may use a name again under each of
    many values.
    """

    def __init__(self) -> None:
        self._count = 0
        self._having: Counter[object] = Counter()
        self._under: defaultdict[object, list[Conditions]] = defaultdict(list)

    def add(self, conditions: Conditions) -> bool:
        """Add a parameter; return False if it can exist together with another one."""
        if self._count and not all(
            _exclude_each_other(conditions, other) for other in self._find_rivals(conditions)
        ):
            return False
        self._count += 1
        self._having.update(conditions.keys())
        for parent, values in conditions.items():
            for value in values:
                self._under[parent, value].append(conditions)
        return True

    def _find_rivals(self, conditions: Conditions) -> Sequence[Conditions]:
        """Return the parameters that share a value of one parent, by the parent with the fewest."""
        rivals: Sequence[Conditions] | None = None
        for parent in reversed(list(conditions)):
            if self._having[parent] == self._count:
                lists = [self._under.get((parent, value), ()) for value in conditions[parent]]
                if rivals is None or sum(map(len, lists)) < len(rivals):
                    rivals = [rival for bearers in lists for rival in bearers]
                if len(rivals) <= _RIVALS_FEW:
                    return rivals
        return [{}] if rivals is None else rivals  # no common parent excludes any


#: If at most this many parameters share a value, do not look for a parent with fewer.
_RIVALS_FEW: Final = 8


def _exclude_each_other(first: Conditions, second: Conditions) -> bool:
    return any(first[parent].isdisjoint(second[parent]) for parent in first.keys() & second.keys())


def study_conditions_can_be_met(context: RuleContext) -> Iterator[Violation]:
    """A conditional parameter names values that its parent has."""
    study = judged_study(context)
    for position, parameter in placed(study.parameters) if study else ():
        if parameter.conditions:
            has, accepted = TAKES[parameter.kind](parameter), _describe_all_values(parameter)
            for index, condition in enumerate(parameter.conditions):
                place = StudyPlace(StudyField.CONDITION, (*position, index))
                for message in _find_unmet(parameter, condition, has):
                    yield broken_study("study-condition", place, message, accepted)


Has = Callable[[str | float], bool]


def _find_unmet(parent: ParameterSpec, condition: Condition, has: Has) -> Iterator[str]:
    child, name = shown_id(condition.parameter), shown_id(parent)
    if not condition.parent_values:
        yield f"parameter {child}: its condition must list at least one value of its parent {name}"
    for value in condition.parent_values:
        if not has(value):
            yield f"parameter {child}: {_render_value(value)} is not a value of its parent {name}"


def _render_value(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _describe_all_values(parent: ParameterSpec) -> str:
    if parent.kind is ParameterKind.DOUBLE:
        return "a parent of type INTEGER, CATEGORICAL or DISCRETE"
    if parent.bounds:
        return f"whole numbers from {parent.bounds[0]:g} to {parent.bounds[1]:g}"
    return join_or(map(_render_value, parent.values)) or f"values that {parent.parameter_id} has"


def _in_range(parent: ParameterSpec) -> Has:
    """Return a check against a parent's bounds; without bounds every whole number passes."""
    least, most = parent.bounds or (-math.inf, math.inf)
    return lambda value: (
        not isinstance(value, str) and float(value).is_integer() and least <= value <= most
    )


#: For each kind of a parent, the check of a condition's value.  A DOUBLE parent accepts no value.
TAKES: Final[Mapping[ParameterKind, Callable[[ParameterSpec], Has]]] = {
    ParameterKind.DOUBLE: lambda _parent: lambda _value: False,
    ParameterKind.INTEGER: _in_range,
    ParameterKind.CATEGORICAL: lambda parent: frozenset(parent.values).__contains__,
    ParameterKind.DISCRETE: near_one,
}
