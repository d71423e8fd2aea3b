"""The search space of a study: its parameters at every depth, and its points.

The tree of conditional parameters is kept as a list in which a parent comes before its children.  A
point is built along this list without the inactive parameters, which get no value.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from trainshed.model.study import ParameterPrior, ParameterSpec, PriorWidth, StudySpec
from trainshed.model.study_priors import prior_values
from trainshed.model.trials import Value, Values
from trainshed.tuning.scales import Axis, axis_of

#: From this rule on, a search uses what the caller expects.
PRIOR_RULE: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedValue:
    """The value of a parameter near which the best one is expected."""

    value: Value
    width: PriorWidth


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One parameter at one place of the tree; places that exclude each other may share a name."""

    index: int
    name: str
    axis: Axis
    default: Value | None = None
    parent: int | None = None
    """The index of the parent parameter; None: the parameter is always active."""
    parent_values: frozenset[Value] = frozenset()
    """The parameter is active if the parent is active and has one of these values."""
    expected: ExpectedValue | None = None

    def is_active(self, chosen: Mapping[int, Value]) -> bool:
        """Whether the parameter is active, given the chosen values by index."""
        if self.parent is None:
            return True
        return self.parent in chosen and chosen[self.parent] in self.parent_values


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """All dimensions, in the order of the study's parameters, children after their parent."""

    dimensions: tuple[Dimension, ...]
    size: int | None
    """The number of points; None: infinitely many."""

    def walk(self, choose: Callable[[Dimension], Value]) -> Values:
        """Return a point; ``choose`` is called for each dimension that its parent makes active."""
        chosen: dict[int, Value] = {}
        for dimension in self.dimensions:
            if dimension.is_active(chosen):
                chosen[dimension.index] = choose(dimension)
        return self.point(chosen)

    def point(self, chosen: Mapping[int, Value]) -> Values:
        """Return the point with these values by index, in the study's order."""
        return tuple([(self.dimensions[index].name, chosen[index]) for index in sorted(chosen)])

    def all_points(self, trials: Sequence[Mapping[int, Value]]) -> list[Values]:
        """Return the point of each trial, whose indexes ascend; in less time than ``point``."""
        names = [dimension.name for dimension in self.dimensions]
        return [
            tuple(zip(names, chosen.values(), strict=True))
            if len(chosen) == len(names)
            else tuple([(names[index], value) for index, value in chosen.items()])
            for chosen in trials
        ]

    def chosen(self, values: Values) -> dict[int, Value] | None:
        """Return the values of a trial by index; None if they are not a point of this space.

        A trial of an earlier study may have other parameters, or values outside these ranges.
        """
        return self.all_chosen([values])[0]

    def all_chosen(self, trials: Sequence[Values]) -> list[dict[int, Value] | None]:
        """Return what ``chosen`` returns for each trial; parameter by parameter, to save time."""
        named_values = [dict(values) for values in trials]
        columns: list[list[Value | None]] = []
        always_active = sum(dimension.parent is None for dimension in self.dimensions)
        active_counts = [always_active] * len(trials)
        for dimension in self.dimensions:
            column = [values.get(dimension.name) for values in named_values]
            if dimension.parent is not None:
                parents = columns[dimension.parent]
                for row, parent_value in enumerate(parents):
                    if parent_value in dimension.parent_values:
                        active_counts[row] += 1
                    else:
                        column[row] = None
            columns.append(dimension.axis.first_equals(column))
        rows = zip(*columns, strict=True) if columns else repeat((), len(trials))
        return [
            _complete(row, count) if count == len(values) else None
            for row, count, values in zip(rows, active_counts, trials, strict=True)
        ]

    @property
    def has_defaults(self) -> bool:
        """Whether any parameter has a default."""
        return any(dimension.default is not None for dimension in self.dimensions)

    @property
    def has_expected(self) -> bool:
        """Whether the caller expects the best value of any parameter near some value."""
        return any(dimension.expected is not None for dimension in self.dimensions)


def _complete(row: Sequence[Value | None], count: int) -> dict[int, Value] | None:
    """Return the values that are not None, by index; None if they are not ``count``."""
    if count == len(row):
        return None if None in row else dict(enumerate(row))  # type: ignore[arg-type]  # no None
    chosen = {index: value for index, value in enumerate(row) if value is not None}
    return chosen if len(chosen) == count else None


def space_of(study: StudySpec) -> Space:
    """Return the space of a study that admission has accepted."""
    dimensions: list[Dimension] = []
    priors = study.priors if study.search_rule >= PRIOR_RULE else ()
    by_id = {prior.parameter_id: prior for prior in priors}
    for parameter in study.parameters:
        _add(dimensions, parameter, None, frozenset(), by_id)
    return Space(dimensions=tuple(dimensions), size=_size(dimensions))


def points(space: Space, choices: Callable[[Dimension], Iterator[Value]]) -> Iterator[Values]:
    """Yield every point that consists of choices, once; the last parameter varies fastest.

    The function is lazy, because ranges may be huge, and not recursive, because trees may be deep.
    """
    chosen: dict[int, Value] = {}
    levels: list[tuple[int, Iterator[Value]]] = []
    at: int | None = 0
    while at is not None:
        for dimension in space.dimensions[at:]:
            if dimension.is_active(chosen):
                values = choices(dimension)
                chosen[dimension.index] = next(values)
                levels.append((dimension.index, values))
        yield space.point(chosen)
        at = _advance(chosen, levels)


_OVER: Final = object()


def _advance(chosen: dict[int, Value], levels: list[tuple[int, Iterator[Value]]]) -> int | None:
    """Advance the last dimension that has another value; return the next index, or None."""
    while levels:
        index, values = levels[-1]
        value = next(values, _OVER)
        if value is not _OVER:
            chosen[index] = value  # type: ignore[assignment]  # all but the mark are values
            return index + 1
        del chosen[index]
        levels.pop()
    return None


def _add(
    dimensions: list[Dimension],
    spec: ParameterSpec,
    parent: Dimension | None,
    parent_values: frozenset[Value],
    priors: Mapping[str, ParameterPrior],
) -> None:
    axis = axis_of(spec)
    default = () if spec.default is None else axis.equal_values(spec.default)
    dimension = Dimension(
        index=len(dimensions),
        name=spec.parameter_id,
        axis=axis,
        default=default[0] if default else None,
        parent=parent.index if parent else None,
        parent_values=parent_values,
        expected=_expected(spec, axis, priors.get(spec.parameter_id)),
    )
    dimensions.append(dimension)
    for condition in spec.conditions:
        values = [
            value
            for parent_value in condition.parent_values
            for value in axis.equal_values(parent_value)
        ]
        _add(dimensions, condition.parameter, dimension, frozenset(values), priors)


def _expected(
    spec: ParameterSpec, axis: Axis, prior: ParameterPrior | None
) -> ExpectedValue | None:
    """Return the expected value; None for one that this bearer of the name does not have."""
    if prior is None:
        return None
    values = (
        equal for value in prior_values(prior.value, spec) for equal in axis.equal_values(value)
    )
    first = next(values, None)
    return None if first is None else ExpectedValue(value=first, width=prior.width)


def _size(dimensions: Sequence[Dimension]) -> int | None:
    """Return the number of points; None: infinitely many.

    Children follow their parent in the list, so the reversed list goes from the leaves up.
    """
    children: dict[int | None, list[tuple[Dimension, int]]] = {}
    for dimension in reversed(dimensions):
        if dimension.axis.count is None:
            return None
        sized_children = children.get(dimension.index, [])
        parent_values = frozenset[Value]().union(
            *(child.parent_values for child, _ in sized_children)
        )
        size = (
            dimension.axis.count
            - len(parent_values)
            + sum(_child_size(value, sized_children) for value in parent_values)
        )
        children.setdefault(dimension.parent, []).append((dimension, size))
    return math.prod(size for _, size in children.get(None, []))


def _child_size(value: Value, sized_children: Sequence[tuple[Dimension, int]]) -> int:
    return math.prod(size for child, size in sized_children if value in child.parent_values)
