"""A range that is stretched to 0..1, evenly or by a logarithm (R19).

A reverse logarithm is the logarithm in a mirror: its steps are finest at the upper end of the range
(contracts/vertex-sdk.md 8).  Offsets from the range's beginning keep narrow ranges of large numbers
exact.
"""

import math
from dataclasses import dataclass
from typing import Final

from trainshed.model.study import Scale

LOGS: Final = (Scale.LOG, Scale.REVERSE_LOG)

#: Above this, ``exp`` leaves the range of floats.
_EXPONENT_MAX: Final = 700.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A range, as offsets from ``low``, that is stretched to 0..1 by a scale."""

    low: float
    span: float
    scale: Scale
    growth: float = 0.0
    """The logarithm of the range's end over its beginning; used by logarithmic scales."""

    def position(self, offset: float) -> float:
        """Where an offset lies."""
        if self.span <= 0:
            return 0.5
        if self.scale is Scale.LOG:
            return _clipped(_growth(offset, self.low) / self.growth)
        if self.scale is Scale.REVERSE_LOG:
            return _clipped(1 - _growth(self.span - offset, self.low) / self.growth)
        return _clipped(offset / self.span)

    def offset(self, position: float) -> float:
        """What lies at a position, not below 0 nor above the span."""
        if self.scale is Scale.LOG:
            found = self._grown(position)
        elif self.scale is Scale.REVERSE_LOG:
            found = self.span - self._grown(1 - position)
        else:
            found = position * self.span
        return min(max(found, 0.0), self.span)

    def _grown(self, position: float) -> float:
        power = position * self.growth
        if power < _EXPONENT_MAX:
            return self.low * math.expm1(power)
        return math.exp(math.log(self.low) + power) - self.low


def stretched(low: float, span: float, scale: Scale) -> Stretch:
    """A range from ``low`` on; logarithmic scales take only ranges above 0."""
    growth = _growth(span, low) if scale in LOGS else 0.0
    return Stretch(low=low, span=span, scale=scale, growth=growth)


def _growth(offset: float, low: float) -> float:
    """ln((low + offset) / low), exact for small offsets too."""
    ratio = max(offset, 0.0) / low
    return math.log1p(ratio) if math.isfinite(ratio) else math.log(offset) - math.log(low)


def _clipped(position: float) -> float:
    return min(max(position, 0.0), 1.0)
