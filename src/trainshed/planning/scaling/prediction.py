"""Predictions for one cluster: figures with 80 % intervals and the bottleneck, or the refusal."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from trainshed.planning.scaling.cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A point and its 80 % interval."""

    low: float
    point: float
    high: float

    def times(self, factor: float) -> "Interval":
        """Return the interval times a positive factor."""
        return Interval(low=self.low * factor, point=self.point * factor, high=self.high * factor)

    def inverse(self, numerator: float = 1.0) -> "Interval":
        """Return ``numerator`` divided by the interval: low becomes high."""
        return Interval(
            low=numerator / self.high, point=numerator / self.point, high=numerator / self.low
        )

    def widen(self, factor: float) -> "Interval":
        """Return the interval of the point times another value, known to ``factor`` at 80 %."""
        below, above = (
            math.exp(math.hypot(math.log(ratio), math.log(factor)))
            for ratio in (self.point / self.low, self.high / self.point)
        )
        return Interval(low=self.point / below, point=self.point, high=self.point * above)

    def span(self, other: "Interval") -> "Interval":
        """Return the interval that holds both; its point is their geometric mean."""
        return Interval(
            low=min(self.low, other.low),
            point=math.sqrt(self.point * other.point),
            high=max(self.high, other.high),
        )

    def at_most(self, most: float) -> "Interval":
        """Return the interval without what is above ``most``."""
        low, point, high = (min(value, most) for value in (self.low, self.point, self.high))
        return Interval(low=low, point=point, high=high)

    def holds(self, value: float) -> bool:
        """Whether a value lies inside the interval."""
        return self.low <= value <= self.high


class Binding(StrEnum):
    """The bottleneck of a job."""

    COMPUTE = "compute"
    INPUT = "input"
    INSIDE = "links inside a host"
    NETWORK = "links between hosts"
    SYNCHRONISATION = "synchronisation"
    FIXED = "the fixed part"
    BATCH = "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    cluster: Cluster
    batch_per_accelerator: float
    step_s: Interval
    efficiency: Interval
    """Throughput of an accelerator over that of one at the smallest measured count."""
    base_accelerators: int
    bound_by: Binding
    parts_s: tuple[tuple[Binding, float], ...]
    """Seconds that each part of a step would take without the others."""
    extrapolated: bool = False
    warnings: tuple[str, ...] = ()
    rate_factor: float = 1.0
    """How many times faster or slower all of the job may be than the intervals say: 1 if its steps
    were timed, infinite if only ratios are known."""

    @property
    def samples_per_s(self) -> Interval:
        """The throughput."""
        return self.step_s.inverse(self.cluster.accelerators * self.batch_per_accelerator)

    @property
    def speedup(self) -> Interval:
        """The throughput over that of one accelerator at the smallest measured count."""
        return self.efficiency.times(self.cluster.accelerators)

    def limit_efficiency(self, most: float) -> "Prediction":
        """Return the prediction with no efficiency above ``most`` in its intervals."""
        samples = self.cluster.accelerators * self.batch_per_accelerator
        rate = self.samples_per_s.point / self.efficiency.point
        return replace(
            self,
            step_s=self.samples_per_s.at_most(most * rate).inverse(samples),
            efficiency=self.efficiency.at_most(most),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPrediction:
    """The reason why there is no prediction, with bounds if possible."""

    field: str
    """The caller's field, such as ``gpus``, ``hosts``, ``calibration``, ``strategy``."""
    message: str
    accepted: str
    """The accepted values, or the command that measures what is missing."""
    samples_per_s: tuple[float, float] | None = None
    """The samples/s without gain and with linear gain; None if nothing was measured."""


def span_predictions(slow: Prediction, fast: Prediction, cluster: Cluster) -> Prediction:
    """Return the prediction of a cluster from those with slow and with fast links.

    Its intervals hold both; parts and bottleneck are those with slow links.
    """
    return replace(
        slow,
        cluster=cluster,
        step_s=slow.step_s.span(fast.step_s),
        efficiency=slow.efficiency.span(fast.efficiency),
        extrapolated=slow.extrapolated or fast.extrapolated,
    )
