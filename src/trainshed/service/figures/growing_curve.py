"""A curve of bounded size, to which points are added in the order in which they were written.

When it is full, neighbouring points are merged; the minimum and the maximum of all values stay.
A list of all values would be as large as the files that a program writes.
"""

import math
from array import array
from collections.abc import Iterator, Sequence
from operator import mul
from typing import Any, Final, NamedTuple, TypeVar

from trainshed.model.usage_curves import SampleColumns
from trainshed.service.figures.answers import ScalarPoint

#: A step that was not reported; no program can report it.
_NO_STEP: Final = -(1 << 63)
_Number = TypeVar("_Number", int, float)


class CurvePoint(NamedTuple):
    """One value, or several values with their minimum, mean and maximum; all are finite."""

    step: int | None
    at_s: float
    low: float
    mean: float
    high: float

    @classmethod
    def of_value(cls, step: int | None, at_s: float, value: float) -> "CurvePoint":
        """Return the point of one value."""
        return cls(step, at_s, value, value, value)


class GrowingCurve:
    """The points of one name.  The step and the time of a point are those of its last value."""

    __slots__ = ("_at", "_counts", "_high", "_low", "_mean", "_steps", "_width")

    def __init__(self, width: int = 1) -> None:
        """``width`` is the number of added points that become one."""
        self._steps = array("q")
        self._at = array("d")
        self._low = array("d")
        self._mean = array("d")
        self._high = array("d")
        self._counts = array("Q")
        self._width = width

    @classmethod
    def of_points(cls, points: Sequence[ScalarPoint], points_max: int) -> "GrowingCurve":
        """Return a curve of these points (one or more), merged to at most ``points_max``."""
        curve = cls()
        return curve._fill(tuple(zip(*points, strict=True)), points_max)

    @classmethod
    def of_samples(cls, samples: SampleColumns, points_max: int) -> "GrowingCurve":
        """Return a curve of one or more samples, merged to at most ``points_max`` points."""
        curve, spreads = cls(), zip(*samples.spreads, strict=True)
        return curve._fill((_steps_of(samples), samples.at, *spreads), points_max)

    def _fill(self, columns: tuple[Sequence[Any], ...], points_max: int) -> "GrowingCurve":
        """Set the columns of an empty curve; return it, merged if it has too many points."""
        steps, *values = columns
        self._steps = array("q", [_NO_STEP if step is None else step for step in steps])
        # an array takes the values of a list or a tuple much faster than those of an iterator
        self._at, self._low, self._mean, self._high = (array("d", column) for column in values)
        self._counts = array("Q", [1] * len(steps))
        return self if len(self) <= points_max else self._merge(points_max)

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, point: CurvePoint, points_max: int) -> None:
        """Add a point; the curve then has at most ``points_max`` points (2 or more)."""
        if self._counts and self._counts[-1] < self._width:
            self._widen_last(point)
            return
        self._append(point, 1)
        if len(self) > points_max:
            merged = self._merge(points_max)
            for name in self.__slots__:
                setattr(self, name, getattr(merged, name))

    def extend(self, samples: SampleColumns, points_max: int) -> None:
        """Add samples, as ``add`` does."""
        rows = zip(_steps_of(samples), samples.at, samples.spreads, strict=True)
        for step, at_s, spread in rows:
            self.add(CurvePoint(step, at_s, *spread), points_max)

    def points(self, points_max: int) -> list[ScalarPoint]:
        """Return at most ``points_max`` points, merged evenly."""
        if len(self) > points_max:
            return self._merge(points_max).points(points_max)
        steps = [None if step == _NO_STEP else step for step in self._steps]
        return list(zip(steps, self._at, self._low, self._mean, self._high, strict=True))

    def _merge(self, points_max: int) -> "GrowingCurve":
        """Return a curve with at most ``points_max`` points, each of as many points of this one."""
        size = -(-len(self) // points_max)
        merged = GrowingCurve(self._width * size)
        merged._steps = _last_of_each(self._steps, size)
        merged._at = _last_of_each(self._at, size)
        merged._low = array("d", map(min, _split(self._low, size)))
        merged._mean = array("d", map(_mean, _split(self._mean, size), _split(self._counts, size)))
        merged._high = array("d", map(max, _split(self._high, size)))
        merged._counts = array("Q", map(sum, _split(self._counts, size)))
        return merged

    def _append(self, point: CurvePoint, count: int) -> None:
        self._steps.append(_NO_STEP if point.step is None else point.step)
        self._at.append(point.at_s)
        self._low.append(point.low)
        self._mean.append(point.mean)
        self._high.append(point.high)
        self._counts.append(count)

    def _widen_last(self, point: CurvePoint) -> None:
        """Merge a point into the last one."""
        share = 1 / (self._counts[-1] + 1)
        self._steps[-1] = _NO_STEP if point.step is None else point.step
        self._at[-1] = point.at_s
        self._low[-1] = min(self._low[-1], point.low)
        self._high[-1] = max(self._high[-1], point.high)
        self._mean[-1] = self._mean[-1] * (1 - share) + point.mean * share
        self._counts[-1] += 1


def _steps_of(samples: SampleColumns) -> Sequence[int | None]:
    return samples.steps or [None] * len(samples.at)


def _split(values: Sequence[_Number], size: int) -> Iterator[tuple[_Number, ...]]:
    """Yield the values in tuples of this size; the last one may be shorter."""
    yield from zip(*[iter(values)] * size, strict=False)
    if rest := len(values) % size:
        yield tuple(values[-rest:])


def _last_of_each(values: "array[_Number]", size: int) -> "array[_Number]":
    """Return the last value of each tuple of ``_split``."""
    return values[size - 1 :: size] + (values[-1:] if len(values) % size else values[:0])


def _mean(means: Sequence[float], counts: Sequence[int]) -> float:
    """Return the mean of points with these counts; the sum of large values may be infinite."""
    total = sum(counts)
    weighted: float = sum(map(mul, means, counts))
    if math.isfinite(weighted):
        return weighted / total
    return sum(mean * (count / total) for mean, count in zip(means, counts, strict=True))
