"""Maps the values of one parameter to positions between 0 and 1, by its scale.

Samplers search the unit interval; only this module knows kinds and scales.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise
from typing import Final

from trainshed.admission.rules.parameter_values import DISCRETE_GAP
from trainshed.model.study import ParameterKind, ParameterSpec, Scale
from trainshed.model.trials import Value

LOGS: Final = (Scale.LOG, Scale.REVERSE_LOG)

#: Above this, ``exp`` leaves the range of floats.
_EXPONENT_MAX: Final = 700.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledRange:
    """A range, as offsets from ``low``, that a scale maps to 0..1."""

    low: float
    span: float
    scale: Scale
    growth: float = 0.0
    """The logarithm of the range's end over its beginning; used by logarithmic scales."""

    def position(self, offset: float) -> float:
        """Return the position of an offset."""
        if self.span <= 0:
            return 0.5
        if self.scale is Scale.LOG:
            return _clipped(_growth(offset, self.low) / self.growth)
        if self.scale is Scale.REVERSE_LOG:
            return _clipped(1 - _growth(self.span - offset, self.low) / self.growth)
        return _clipped(offset / self.span)

    def positions_of(self, offsets: Sequence[float]) -> list[float]:
        """Return what ``position`` returns for each offset, in less time."""
        if self.span <= 0 or self.scale in LOGS:
            return [self.position(offset) for offset in offsets]
        positions = [offset / self.span for offset in offsets]
        if positions and min(positions) >= 0.0 and max(positions) <= 1.0:
            return positions
        return [p if 0.0 <= p <= 1.0 else _clipped(p) for p in positions]

    def offset(self, position: float) -> float:
        """Return the offset at a position, not below 0 nor above the span."""
        if self.scale is Scale.LOG:
            offset = self._grown(position)
        elif self.scale is Scale.REVERSE_LOG:
            offset = self.span - self._grown(1 - position)
        else:
            offset = position * self.span
        return min(max(offset, 0.0), self.span)

    def _grown(self, position: float) -> float:
        power = position * self.growth
        if power < _EXPONENT_MAX:
            return self.low * math.expm1(power)
        return math.exp(math.log(self.low) + power) - self.low


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubles:
    """A DOUBLE between two bounds; equal bounds are one point."""

    low: float
    high: float
    scaled: ScaledRange

    @property
    def count(self) -> int | None:
        """Return 1 for equal bounds; None: infinitely many values."""
        return 1 if self.low == self.high else None

    @property
    def is_even(self) -> bool:
        """Whether the values have equal shares of 0..1: only a single value has."""
        return self.low == self.high

    def position(self, value: Value) -> float:
        """Return the position of a value; halve the numbers if the range overflows a float."""
        number = float(value)
        if self.scaled.span == math.inf:
            return (number / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return self.scaled.position(number - self.low)

    def positions_of(self, values: Sequence[Value]) -> list[float]:
        """Return the positions of some values."""
        if self.scaled.span == math.inf:
            return [self.position(value) for value in values]
        return self.scaled.positions_of([float(value) - self.low for value in values])

    def value(self, position: float) -> Value:
        """Return the value at a position, never outside the bounds."""
        if self.scaled.span == math.inf:
            return self.low * (1 - position) + self.high * position
        if position >= 1:  # low + (high - low) may differ from it by a rounding error
            return self.high
        return min(max(self.low + self.scaled.offset(position), self.low), self.high)

    def equal_values(self, value: Value) -> tuple[Value, ...]:
        """Return the number itself if it is within the bounds, else nothing."""
        inside = not isinstance(value, str) and self.low <= value <= self.high
        return (float(value),) if inside else ()

    def first_equals(self, values: Sequence[Value | None]) -> list[Value | None]:
        """Return each number itself if it is within the bounds, else None."""
        low, high = self.low, self.high
        return [
            value if type(value) is float and low <= value <= high else _first_equal(self, value)
            for value in values
        ]

    def values_from(self, first: Value | None) -> Iterator[Value]:
        """Iterate over the only value.  Raises ValueError for a range, which cannot be listed."""
        del first
        if self.count is None:
            raise ValueError("a range of DOUBLE has no list of values")
        return iter((self.low,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Integers:
    """An INTEGER between two bounds.  Each number is a cell of 0..1 with itself in the middle."""

    low: int
    count: int
    scaled: ScaledRange

    @property
    def is_even(self) -> bool:
        """Whether all numbers have equal shares; not on a logarithmic scale."""
        return self.scaled.scale not in LOGS or self.count == 1

    def position(self, value: Value) -> float:
        """Return the middle of the number's cell."""
        index = int(value) - self.low
        if self.is_even:
            return (index + 0.5) / self.count
        return self.scaled.position(index + 0.5)

    def positions_of(self, values: Sequence[Value]) -> list[float]:
        """Return the middles of the numbers' cells."""
        middles = [int(value) - self.low + 0.5 for value in values]
        if self.is_even:
            return [middle / self.count for middle in middles]
        return self.scaled.positions_of(middles)

    def value(self, position: float) -> Value:
        """Return the number whose cell contains a position."""
        cells = position * self.count if self.is_even else self.scaled.offset(position)
        return self.low + min(int(cells), self.count - 1)

    def equal_values(self, value: Value) -> tuple[Value, ...]:
        """Return the number itself if it is whole and within the bounds, else nothing."""
        if isinstance(value, str) or not float(value).is_integer():
            return ()
        number = int(value)
        return (number,) if self.low <= number < self.low + self.count else ()

    def first_equals(self, values: Sequence[Value | None]) -> list[Value | None]:
        """Return each number itself if it is whole and within the bounds, else None."""
        low, end = self.low, self.low + self.count
        return [
            value if type(value) is int and low <= value < end else _first_equal(self, value)
            for value in values
        ]

    def values_from(self, first: Value | None) -> Iterator[Value]:
        """Iterate over all numbers from ``first``, lazily: there may be very many."""
        start = self.low if first is None else int(first)
        return chain(range(start, self.low + self.count), range(self.low, start))


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The values of a DISCRETE or CATEGORICAL parameter, with ascending positions."""

    values: tuple[Value, ...]
    positions: tuple[float, ...]
    is_even: bool
    indexes: Mapping[Value, int]

    @property
    def count(self) -> int:
        return len(self.values)

    def position(self, value: Value) -> float:
        """Return the position of a value of the list."""
        return self.positions[self.indexes[value]]

    def positions_of(self, values: Sequence[Value]) -> list[float]:
        """Return the positions of some values of the list."""
        return [self.positions[self.indexes[value]] for value in values]

    def value(self, position: float) -> Value:
        """Return the value whose equal share contains a position, or else the nearest value."""
        if self.is_even:
            return self.values[min(int(position * self.count), self.count - 1)]
        right = min(max(bisect_left(self.positions, position), 1), self.count - 1)
        left = right - 1
        nearer = position - self.positions[left] <= self.positions[right] - position
        return self.values[left if nearer else right]

    def equal_values(self, value: Value) -> tuple[Value, ...]:
        """Return the equal word, or numbers within 1e-10 (docs/sources/vertex.md 8)."""
        if value in self.indexes:
            return (self.values[self.indexes[value]],)
        return tuple(candidate for candidate in self.values if _is_near(candidate, value))

    def first_equals(self, values: Sequence[Value | None]) -> list[Value | None]:
        """Return for each value the first equal one of the list, or None."""
        return [_first_equal(self, value) for value in values]

    def values_from(self, first: Value | None) -> Iterator[Value]:
        """Iterate over all values from ``first``, in the study's order."""
        start = 0 if first is None else self.indexes[first]
        return iter(self.values[start:] + self.values[:start])


#: The values of one parameter and their positions.  ``count`` is the number of values, None if
#: infinite.  ``is_even`` is whether there are finitely many values, each with an equal share of
#: 0..1.  ``position`` returns a value's position, and ``value`` the value at or nearest to a
#: position in 0..1.  ``equal_values`` returns the values equal to a number or word: mostly one or
#: none.  ``positions_of`` and ``first_equals`` do the same for many values in less time; the second
#: returns None where nothing is equal.  ``values_from`` iterates over a finite axis once: from
#: ``first`` to the end, then from the beginning to ``first``.
Axis = Doubles | Integers | Listed


def axis_of(spec: ParameterSpec) -> Axis:
    """Return the values of a parameter that admission has accepted."""
    if spec.kind is ParameterKind.CATEGORICAL:
        return _ranked(tuple(str(value) for value in spec.values))
    if spec.kind is ParameterKind.DISCRETE:
        return _discrete(tuple(float(value) for value in spec.values), spec.scale)
    low, high = spec.bounds or (0.0, 0.0)
    if spec.kind is ParameterKind.DOUBLE:
        scaled = scaled_range(float(low), float(high) - float(low), spec.scale)
        return Doubles(low=float(low), high=float(high), scaled=scaled)
    count = int(high) - int(low) + 1
    scaled = scaled_range(low - 0.5, float(count), spec.scale)
    return Integers(low=int(low), count=count, scaled=scaled)


def all_positions(axis: Axis) -> tuple[float, ...]:
    """Return the positions of all values of a finite axis, ascending."""
    return axis.positions if isinstance(axis, Listed) else _computed_positions(axis)


@lru_cache(maxsize=64)
def _computed_positions(axis: Doubles | Integers) -> tuple[float, ...]:
    """Return the positions of all values; integers are many, and every suggestion needs them."""
    return tuple(axis.positions_of([*axis.values_from(None)]))


def _discrete(values: tuple[float, ...], scale: Scale) -> Axis:
    """Return the axis of a DISCRETE parameter; without a scale all values get equal shares."""
    scaled = scaled_range(values[0], values[-1] - values[0], scale)
    positions = tuple(scaled.position(value - values[0]) for value in values)
    if scale is Scale.NONE or any(one >= other for one, other in pairwise(positions)):
        return _ranked(values)
    return _listed(values, positions, is_even=len(values) == 1)


def _ranked(values: tuple[Value, ...]) -> Axis:
    once = tuple(dict.fromkeys(values))
    positions = tuple((index + 0.5) / len(once) for index in range(len(once)))
    return _listed(once, positions, is_even=True)


def _listed(values: tuple[Value, ...], positions: tuple[float, ...], *, is_even: bool) -> Axis:
    indexes = {value: index for index, value in enumerate(values)}
    return Listed(values=values, positions=positions, is_even=is_even, indexes=indexes)


def _first_equal(axis: Axis, value: Value | None) -> Value | None:
    equal_values = () if value is None else axis.equal_values(value)
    return equal_values[0] if equal_values else None


def _is_near(one: Value, other: Value) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return False
    return abs(one - other) <= DISCRETE_GAP


def scaled_range(low: float, span: float, scale: Scale) -> ScaledRange:
    """Return a range that begins at ``low``, which must be above 0 for logarithmic scales."""
    growth = _growth(span, low) if scale in LOGS else 0.0
    return ScaledRange(low=low, span=span, scale=scale, growth=growth)


def _growth(offset: float, low: float) -> float:
    """Return ln((low + offset) / low), also precise for small offsets."""
    ratio = max(offset, 0.0) / low
    return math.log1p(ratio) if math.isfinite(ratio) else math.log(offset) - math.log(low)


def _clipped(position: float) -> float:
    return min(max(position, 0.0), 1.0)
