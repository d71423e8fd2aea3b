"""A curve of bounded size, to which points are added in the order in which they were written.

When it is full, neighbouring points are merged; the minimum and the maximum of all values stay.
A list of all values would be as large as the files that a program writes.
"""

from array import array
from collections.abc import Sequence
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

    @classmethod
    def of_points(cls, points: Sequence[ScalarPoint], points_max: int) -> "GrowingCurve":
        """Return a curve of these points (one or more), merged to at most ``points_max``.

        Plain tuples, because the garbage collector looks at each named tuple again and again.
        """
        curve = cls()
        steps, at, low, mean, high = zip(*points, strict=True)
        curve._steps.extend(_NO_STEP if step is None else step for step in steps)
        curve._at.extend(at)
        curve._low.extend(low)
        curve._mean.extend(mean)
        curve._high.extend(high)
        curve._counts.extend([1] * len(points))
        return curve if len(curve) <= points_max else curve._merge(points_max)

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
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            counts = self._counts[part]
            total = sum(counts)
            # the sum of large values would be infinite
            means = zip(self._mean[part], counts, strict=True)
            mean = sum(mean * (count / total) for mean, count in means)
            step, at_s = self._steps[part][-1], self._at[part][-1]
            low, high = min(self._low[part]), max(self._high[part])
            merged._append(CurvePoint(step, at_s, low, mean, high), total)
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
