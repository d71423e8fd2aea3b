"""A curve of bounded size, to which points are added in the order in which they were written.

When it is full, neighbouring points are merged; the minimum and the maximum of all values stay.
A list of all values would be as large as the files that a program writes.
"""

from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

from trainshed.service.figures.answers import ScalarPoint

#: A step that was not reported; no program can report it.
_NO_STEP: Final = -(1 << 63)


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

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, point: CurvePoint, points_max: int) -> None:
        """Add a point; the curve then has at most ``points_max`` points (2 or more)."""
        self._add(point, 1)
        if len(self) > points_max:
            self._become(self._merge(points_max))

    def points(self, points_max: int) -> list[ScalarPoint]:
        """Return at most ``points_max`` points, merged evenly."""
        curve = self if len(self) <= points_max else self._merge(points_max)
        return [point for point, _ in curve.rows()]

    def _merge(self, points_max: int) -> "GrowingCurve":
        """Return a curve with at most ``points_max`` points, each of as many points of this one."""
        merged = GrowingCurve(self._width * -(-len(self) // points_max))
        for point, count in self.rows():
            merged._add(point, count)
        return merged

    def _become(self, other: "GrowingCurve") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))

    def rows(self) -> Iterator[tuple[CurvePoint, int]]:
        """Yield the points with the number of values in them."""
        columns = (self._steps, self._at, self._low, self._mean, self._high, self._counts)
        for step, at_s, low, mean, high, count in zip(*columns, strict=True):
            yield CurvePoint(None if step == _NO_STEP else step, at_s, low, mean, high), count

    def _add(self, point: CurvePoint, count: int) -> None:
        """Merge a point of ``count`` values into the last point, if that has room for it."""
        if self._counts and self._counts[-1] + count <= self._width:
            self._widen_last(point, count)
            return
        self._steps.append(_NO_STEP if point.step is None else point.step)
        self._at.append(point.at_s)
        self._low.append(point.low)
        self._mean.append(point.mean)
        self._high.append(point.high)
        self._counts.append(count)

    def _widen_last(self, point: CurvePoint, count: int) -> None:
        before = self._counts[-1]
        self._steps[-1] = _NO_STEP if point.step is None else point.step
        self._at[-1] = point.at_s
        self._low[-1] = min(self._low[-1], point.low)
        self._high[-1] = max(self._high[-1], point.high)
        # the sum of two large means would be infinite
        share = count / (before + count)
        self._mean[-1] = self._mean[-1] * (1 - share) + point.mean * share
        self._counts[-1] += count
