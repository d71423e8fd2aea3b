"""Fits a measured curve: a monotone model, its efficiency, and implausible steps.

The fit is of seconds for a sample of one accelerator: s (1 + a [n > n0] + b log2(n / n0)), with a
loss ``a`` for more than the smallest count and a loss ``b`` for each doubling.  The model never
gains more than in proportion; measured steps that do are listed, and no count is refused.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from trainshed.planning.scaling.least_squares import Vector, least_squares
from trainshed.planning.scaling.tables import Point, Series

#: A step that gains this much more than in proportion is not a rounding error.
_NOISE: Final = 1.01
#: Both losses are fitted only to this many points or more.
_BOTH: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A monotone model of throughput by the number of accelerators."""

    base: int
    """The smallest count that was measured."""
    rate: float
    """The throughput of one accelerator at ``base``."""
    first: float
    """The loss with more accelerators than ``base`` (a)."""
    doubling: float
    """Loss for each doubling (b)."""

    def throughput(self, accelerators: float) -> float:
        """Return the throughput of the whole job."""
        return accelerators * self.rate / (1 + self._loss(accelerators))

    def _loss(self, accelerators: float) -> float:
        doublings = math.log2(accelerators / self.base)
        return self.first * (accelerators > self.base) + self.doubling * doublings


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedPoint:
    """One measured count with its fitted throughput."""

    point: Point
    fitted: float
    efficiency: float
    """The measured throughput of one accelerator, over that at the smallest count."""

    @property
    def error(self) -> float:
        """The error of the fit as a share of the measured value; negative if the fit is too low."""
        return self.fitted / self.point.throughput - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingCurve:
    """A measured curve with its fit and warnings."""

    series: Series
    fit: Fit
    points: tuple[FittedPoint, ...]
    offending: tuple[str, ...]
    """A sentence for each step between counts that no monotone model explains."""
    fixed_share: float | None
    """The share of the time on the smallest count that more accelerators do not shorten, by the
    largest count; None if that count lost less than half of the efficiency."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """The sentences about the curve."""
        if self.fixed_share is None:
            return self.offending
        first, last = self.points[0].point, self.points[-1].point
        base = "one" if first.accelerators == 1 else f"{first.accelerators:,}"
        limit = (
            f"{last.throughput / first.throughput:.3g} times {base} on {last.accelerators:,}"
            f" accelerators is a fixed share of {100 * self.fixed_share:.3g} %: no count is more"
            f" than {1 / self.fixed_share:.0f} times as fast as {base}"
        )
        return (*self.offending, limit)


def curve_of(series: Series) -> ScalingCurve:
    """Fit a measured curve and list its implausible steps."""
    points = series.points
    fit = _fit(points)
    fitted_points = tuple(
        FittedPoint(
            point=point,
            fitted=fit.throughput(point.accelerators),
            efficiency=point.per_accelerator / points[0].per_accelerator,
        )
        for point in points
    )
    return ScalingCurve(
        series=series,
        fit=fit,
        points=fitted_points,
        offending=tuple(_offending(points)),
        fixed_share=_fixed_share(points),
    )


def _fixed_share(points: Sequence[Point]) -> float | None:
    """Return the share s of Amdahl's law, of which 1 / (s + (1 - s) / n) is the speed-up."""
    n = points[-1].accelerators / points[0].accelerators
    speedup = points[-1].throughput / points[0].throughput
    if not 1 <= speedup < n / 2:
        return None
    return (n / speedup - 1) / (n - 1)


def _fit(points: Sequence[Point]) -> Fit:
    """Fit by least squares of the logarithms; losses are squares, so none is negative."""
    base = points[0]
    start = [math.log(base.per_accelerator), 0.2, 0.2][: len(points)]

    def fit_at(unknown: Vector) -> Fit:
        losses = [*(value**2 for value in unknown[1:]), 0.0, 0.0]
        first, doubling = (losses[0], losses[1]) if len(unknown) == _BOTH else (0.0, losses[0])
        return Fit(
            base=base.accelerators, rate=math.exp(unknown[0]), first=first, doubling=doubling
        )

    def residuals(unknown: Vector) -> Vector:
        fit = fit_at(unknown)
        return [math.log(fit.throughput(p.accelerators) / p.throughput) for p in points]

    return fit_at(least_squares(residuals, start))


def _offending(points: Sequence[Point]) -> Iterator[str]:
    for a, b in pairwise(points):
        gain, ideal = b.throughput / a.throughput, b.accelerators / a.accelerators
        step = f"from {a.accelerators} to {b.accelerators} accelerators throughput"
        if gain > ideal * _NOISE:
            yield f"{step} grows {gain:.2f} times, more than the {ideal:.2g} times of the count"
        elif gain < 1:
            yield f"{step} falls to {gain:.2f} of what it was"
