"""Figures with 80 % intervals."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A point and its 80 % interval."""

    low: float
    point: float
    high: float

    def times(self, factor: float) -> "Interval":
        """All three multiplied by something positive."""
        return Interval(low=self.low * factor, point=self.point * factor, high=self.high * factor)

    def inverse(self, numerator: float = 1.0) -> "Interval":
        """``numerator`` over it: the ends change places."""
        return Interval(
            low=numerator / self.high, point=numerator / self.point, high=numerator / self.low
        )

    def holds(self, value: float) -> bool:
        """Whether a value lies inside."""
        return self.low <= value <= self.high
