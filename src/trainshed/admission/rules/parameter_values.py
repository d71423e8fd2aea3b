"""Rules about the values of a study's parameters: bounds, lists, scales, first values.

The sources are docs/sources/vertex.md 7.1 and 8.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from trainshed.admission.context import RuleContext
from trainshed.admission.rules.study import broken_study, judged_study
from trainshed.model.faults import Violation
from trainshed.model.study import ParameterKind, ParameterSpec, Scale
from trainshed.model.study_places import StudyField, StudyPlace, placed
from trainshed.model.texts import join_or

DISCRETE_MAX: Final = 1000

#: The least distance of two discrete values.  A condition matches a value within this tolerance.
DISCRETE_GAP: Final = 1e-10

#: Above this, a float cannot distinguish a whole number from its neighbours.
INTEGER_MAX: Final = 2**53

#: Characters of a parameter's name that a message repeats.
ID_LENGTH_SHOWN: Final = 128

RANGES: Final = (ParameterKind.DOUBLE, ParameterKind.INTEGER)
LOG_SCALES: Final = (Scale.LOG, Scale.REVERSE_LOG)
IN_ORDER: Final = "minValue and maxValue, the least first"

At = tuple[int, ...]


def study_values_are_possible(context: RuleContext) -> Iterator[Violation]:
    """Ranges and lists have values, and a scale that fits them."""
    study = judged_study(context)
    for position, parameter in placed(study.parameters) if study else ():
        if parameter.kind in RANGES:
            yield from _check_bounds(parameter, position)
        else:
            yield from _check_values(parameter, position)
        yield from _check_scale(parameter, position)
        yield from _check_default(parameter, position)


def _check_bounds(parameter: ParameterSpec, position: At) -> Iterator[Violation]:
    if parameter.bounds is None:
        message, place = "minValue and maxValue are missing", StudyPlace(StudyField.KIND, position)
        yield _make_violation(parameter, "study-bounds", place, message, IN_ORDER)
        return
    least, most = parameter.bounds
    bounds = ((StudyField.LEAST, "minValue", least), (StudyField.MOST, "maxValue", most))
    broken = [row for row in bounds if not math.isfinite(row[2])]
    for field, name, bound in broken[:1]:
        message, place = f"{name} is {bound}", StudyPlace(field, position)
        yield _make_violation(parameter, "study-bounds", place, message, "a finite number")
    if not broken:
        yield from _check_order(parameter, position, least, most)
        if parameter.kind is ParameterKind.INTEGER:
            for field, name, bound in bounds:
                yield from _check_whole(parameter, StudyPlace(field, position), name, bound)


def _check_order(
    parameter: ParameterSpec, position: At, least: float, most: float
) -> Iterator[Violation]:
    place = StudyPlace(StudyField.LEAST, position)
    if least > most:
        message = f"minValue {least:g} is above maxValue {most:g}"
        yield _make_violation(parameter, "study-bounds", place, message, IN_ORDER)
    elif not math.isfinite(most - least):
        message = f"maxValue {most:g} is too far above minValue {least:g}"
        yield _make_violation(
            parameter, "study-bounds", place, message, "bounds with a finite difference"
        )


def _check_whole(
    parameter: ParameterSpec, place: StudyPlace, name: str, bound: float
) -> Iterator[Violation]:
    if not bound.is_integer():
        message = f"{name} {bound:g} is not a whole number"
        yield _make_violation(
            parameter, "study-bounds", place, message, "whole numbers for INTEGER"
        )
    elif abs(bound) > INTEGER_MAX:
        message = f"{name} {bound:g} is too large to be exact"
        accepted = f"whole numbers from {-INTEGER_MAX} to {INTEGER_MAX}"
        yield _make_violation(parameter, "study-bounds", place, message, accepted)


def _check_values(parameter: ParameterSpec, position: At) -> Iterator[Violation]:
    values, place = parameter.values, StudyPlace(StudyField.VALUES, position)
    if not values:
        message = f"a {parameter.kind.value} parameter needs values"
        yield _make_violation(
            parameter, "study-values", place, message, "a list of at least one value"
        )
    if parameter.kind is ParameterKind.CATEGORICAL:
        for value, count in Counter(values).items():
            if count > 1:
                message = f"the value {value} is given {count} times"
                yield _make_violation(parameter, "study-values", place, message, "each value once")
        return
    if len(values) > DISCRETE_MAX:
        message = f"{len(values)} discrete values are too many"
        yield _make_violation(parameter, "study-values", place, message, f"at most {DISCRETE_MAX}")
    if not _is_increasing([float(value) for value in values]):
        message = "the discrete values are not strictly increasing"
        accepted = f"finite numbers, the least first, {DISCRETE_GAP:g} apart or more"
        yield _make_violation(parameter, "study-values", place, message, accepted)


def _is_increasing(values: Sequence[float]) -> bool:
    """Whether each value is at least 1e-10 above the previous value.

    A tolerance of 1 % allows for the rounding of floats.
    """
    gap = DISCRETE_GAP * 0.99
    rises = all(
        value < following and following - value >= gap for value, following in pairwise(values)
    )
    return rises and all(map(math.isfinite, values))


def _check_scale(parameter: ParameterSpec, position: At) -> Iterator[Violation]:
    place = StudyPlace(StudyField.SCALE, position)
    if parameter.kind is ParameterKind.CATEGORICAL:
        if parameter.scale is not Scale.NONE:
            message = "a CATEGORICAL parameter has no scale"
            yield _make_violation(parameter, "study-scale", place, message, "leave it out")
        return
    if parameter.scale not in LOG_SCALES:
        return
    numbers = parameter.bounds or tuple(float(value) for value in parameter.values)
    if all(map(math.isfinite, numbers)) and min(numbers, default=1) <= 0:
        message = f"a logarithmic scale needs numbers above 0, not {min(numbers):g}"
        accepted = "numbers above 0, or a linear scale"
        yield _make_violation(parameter, "study-scale", place, message, accepted)


def _check_default(parameter: ParameterSpec, position: At) -> Iterator[Violation]:
    """Check that a parameter's ``defaultValue`` is one of its values."""
    value = parameter.default
    if value is None or not (parameter.bounds or parameter.values):
        return
    if not accepts_value(parameter, value):
        text = value if isinstance(value, str) else f"{value:g}"
        message, place = (
            f"defaultValue {text} is not one of its values",
            StudyPlace(StudyField.DEFAULT, position),
        )
        yield _make_violation(
            parameter, "study-default", place, message, describe_values(parameter)
        )


def accepts_value(parameter: ParameterSpec, value: str | float) -> bool:
    """Return whether a value is one of the parameter's values."""
    if parameter.kind is ParameterKind.CATEGORICAL:
        return value in parameter.values
    if parameter.kind is ParameterKind.DISCRETE:
        return near_one(parameter)(value)
    if isinstance(value, str) or parameter.bounds is None:
        return False
    is_kind = parameter.kind is ParameterKind.DOUBLE or float(value).is_integer()
    return is_kind and parameter.bounds[0] <= value <= parameter.bounds[1]


def near_one(parameter: ParameterSpec) -> Callable[[str | float], bool]:
    """Return a check whether a number is one of the parameter's values.

    The tolerance is 1e-10 (docs/sources/vertex.md 8).
    """
    numbers = sorted(value for value in map(float, parameter.values) if math.isfinite(value))

    def is_near(value: str | float) -> bool:
        if isinstance(value, str):
            return False
        position = bisect_left(numbers, value)
        return any(
            abs(number - value) <= DISCRETE_GAP
            for number in numbers[max(position - 1, 0) : position + 1]
        )

    return is_near


def shown_id(parameter: ParameterSpec) -> str:
    """Return a parameter's name for a message, shortened: many messages may repeat it."""
    return parameter.parameter_id[:ID_LENGTH_SHOWN]


def describe_values(parameter: ParameterSpec) -> str:
    """Describe the values of a parameter, such as ``numbers from 0 to 1``."""
    if parameter.bounds:
        noun = "whole numbers" if parameter.kind is ParameterKind.INTEGER else "numbers"
        return f"{noun} from {parameter.bounds[0]:g} to {parameter.bounds[1]:g}"
    return join_or(parameter.values)


def _make_violation(
    parameter: ParameterSpec, rule: str, place: StudyPlace, problem: str, accepted: str
) -> Violation:
    return broken_study(rule, place, f"parameter {shown_id(parameter)}: {problem}", accepted)
