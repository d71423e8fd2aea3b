"""Predicts the step on unmeasured clusters from runs, with its spread.

The unknowns and the drift of ``fitting`` are about normal in logarithms.  The error at measured
clusters is extrapolated by the covariance of the drift; the spread is the remaining variance of the
unknowns and the drift.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.cluster import Cluster
from trainshed.planning.scaling.fitting import (
    UNKNOWNS,
    HostTraining,
    LogMeasurement,
    measurements_of,
    shared_drift,
    spread_of,
)
from trainshed.planning.scaling.least_squares import (
    Matrix,
    Vector,
    backward,
    dot,
    forward,
    triangle,
)
from trainshed.planning.scaling.parameters import Parameters
from trainshed.planning.scaling.step import INPUT_OVERLAP, smooth_maximum
from trainshed.planning.scaling.training import StepBatch

_STEP = 1e-4
Logarithm = Callable[[Mapping[str, float]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Posterior:
    """A calibrated job, for predictions of clusters."""

    job: HostTraining
    values: Mapping[str, float]
    observations: tuple[LogMeasurement, ...]
    carried: Vector
    """The weight of the drift at each measured step."""
    slopes: Matrix
    """The derivative of each measurement by each unknown, times the unknown's prior width."""
    lower: Matrix
    """The Cholesky triangle of the measurements' covariance, with the part of the unknowns."""

    def step(self, cluster: Cluster, batch: StepBatch) -> float:
        """Return the expected seconds of a step, corrected by the errors at measurements."""
        parts, rates = self.job.parts(cluster, self.values, batch)
        correction = math.exp(dot(self._shared(cluster), self.carried))
        without_input = parts.without_input(rates.overlap) * correction
        return smooth_maximum(without_input, parts.input, INPUT_OVERLAP)

    def spread(self, cluster: Cluster, batch: StepBatch, base: Cluster | None = None) -> float:
        """Return the standard deviation of the logarithm of a step.

        With ``base``, of the ratio of that step to one on this single accelerator.
        """

        def logarithm(values: Mapping[str, float]) -> float:
            step_s = self.job.step(cluster, values, batch)
            return math.log(step_s / self.job.step(base, values, batch) if base else step_s)

        slopes = _slopes(self.job, self.values, logarithm)
        alone = dot(slopes, slopes) + shared_drift(self.job.constants, cluster, cluster)
        shared = self._shared(cluster)
        both = [dot(slopes, row) + more for row, more in zip(self.slopes, shared, strict=True)]
        explained = forward(self.lower, both)
        noise = self.job.constants.priors["noise"]
        return math.sqrt(max(0.0, alone - dot(explained, explained)) + noise * noise)

    def _shared(self, cluster: Cluster) -> Vector:
        return [
            shared_drift(self.job.constants, cluster, one.run) if one.what == "step" else 0.0
            for one in self.observations
        ]


def posterior(calibration: Calibration, constants: Parameters) -> Posterior:
    """Make the posterior of a calibration, which must have a compute time."""
    job = HostTraining(constants=constants, training=calibration.training, host=calibration.host)
    values = {**job.usual(1.0), **calibration.fitted.values}
    noise, cpus = constants.priors["noise"], calibration.host.cpus
    observations = measurements_of(calibration.runs, noise, cpus)
    spread = spread_of(constants, observations)
    missed = [one.value - job.expected(one, values) for one in observations]
    drift = triangle(spread)
    slopes = [_slopes(job, values, partial(job.expected, one)) for one in observations]
    covariance = [
        [value + dot(slopes[i], slopes[j]) for j, value in enumerate(row)]
        for i, row in enumerate(spread)
    ]
    return Posterior(
        job=job,
        values=values,
        observations=tuple(observations),
        carried=backward(drift, forward(drift, missed)),
        slopes=slopes,
        lower=triangle(covariance),
    )


def _slopes(job: HostTraining, values: Mapping[str, float], logarithm: Logarithm) -> Vector:
    value_now = logarithm(values)
    return [
        width * (logarithm({**values, name: values[name] * math.exp(_STEP)}) - value_now) / _STEP
        for name, width in zip(UNKNOWNS, job.widths(), strict=True)
    ]
