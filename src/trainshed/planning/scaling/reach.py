"""Gives the interval of a prediction by the kind of its extrapolation.

The spread of the unknowns (``posterior``) is scaled by the errors of published curves, separately
above and below, because jobs are more often slower than predicted than faster.
"""

import math
from collections.abc import Collection
from dataclasses import replace
from enum import StrEnum

from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.fitting import timed
from trainshed.planning.scaling.posterior import Posterior
from trainshed.planning.scaling.prediction import Interval
from trainshed.planning.scaling.training import StepBatch, Strategy, Training

Count = tuple[int, int]
"""Accelerators and hosts."""

_SERVERS = frozenset({Strategy.PS_CPU, Strategy.PS_GPU, Strategy.PS_DISTRIBUTED, Strategy.PS_NAIVE})
_PCIE_BYTES = 24e9
#: The spreads below and above for a class with few published points.
_USUAL = (-1.3, 1.6)
#: The standard deviation by which jobs of one size differ at two accelerators, in logarithms; it
#: grows with the root of the doublings.
_UNLIKE = 0.1
#: The factors by which a repeated run differs on another day, even with steady steps.
_REPEATED = (0.98, 1.03)


class Extrapolation(StrEnum):
    """Kinds of extrapolation from measured counts."""

    BETWEEN = "between measured counts"
    SERVERS = "parameter servers"
    PCIE = "a host with PCIe"
    REAL = "a host with real data"
    SYNTHETIC = "a host with synthetic data"
    FROM_HOSTS = "hosts from hosts"
    FROM_HOST = "hosts from a full host"
    FROM_INSIDE = "hosts from a full host and fewer accelerators"
    FROM_ONE = "hosts from one accelerator"
    PUBLISHED = "from published jobs"


def factors(
    posterior: Posterior, calibration: Calibration, cluster: Cluster, batch: StepBatch
) -> Interval:
    """Return the factors of the predicted time that bound the 80 % interval."""
    if calibration.is_published:
        return _from_published(posterior, cluster, batch)
    measured = {(run.accelerators, run.hosts) for run in timed(calibration.runs)}
    target = (cluster.accelerators, cluster.hosts)
    reach = reach_of(calibration.training, calibration.host, measured, target)
    low, high = posterior.job.constants.reach.get(reach, _USUAL)
    spread = posterior.spread(cluster, batch)
    ends = math.exp(low * spread), math.exp(high * spread)
    if target in measured:
        ends = min(_REPEATED[0], ends[0]), max(_REPEATED[1], ends[1])
    return Interval(low=ends[0], point=1.0, high=ends[1])


def _from_published(posterior: Posterior, cluster: Cluster, batch: StepBatch) -> Interval:
    """Return the factors of the time relative to one accelerator, whose own time is unknown."""
    one = replace(cluster, accelerators=1, hosts=1)
    low, high = posterior.job.constants.reach.get(Extrapolation.PUBLISHED, _USUAL)
    of_values = posterior.spread(cluster, batch, base=one)
    spread = math.hypot(of_values, _UNLIKE * math.sqrt(math.log2(cluster.accelerators)))
    return Interval(low=math.exp(low * spread), point=1.0, high=math.exp(high * spread))


def reach_of(
    training: Training, host: HostKind, measured: Collection[Count], target: Count
) -> Extrapolation:
    """Return the kind of extrapolation; ``measured`` must not be empty."""
    if target in measured or _is_between(measured, target):
        return Extrapolation.BETWEEN
    if training.strategy in _SERVERS:
        return Extrapolation.SERVERS
    if target[1] > 1:
        return _of_hosts(host, measured)
    if 0 < host.inside_bytes < _PCIE_BYTES:
        return Extrapolation.PCIE
    return Extrapolation.REAL if training.data == "real" else Extrapolation.SYNTHETIC


def _is_between(measured: Collection[Count], target: Count) -> bool:
    """Whether a target is between measured counts; never with more hosts than measured."""
    accelerators = [count for count, _ in measured]
    within = min(accelerators) < target[0] < max(accelerators)
    return within and target[1] <= max(hosts for _, hosts in measured)


def _of_hosts(host: HostKind, measured: Collection[Count]) -> Extrapolation:
    if any(hosts > 1 for _, hosts in measured):
        return Extrapolation.FROM_HOSTS
    is_full_host = any(accelerators >= host.per_host for accelerators, _ in measured)
    if not is_full_host:
        return Extrapolation.FROM_ONE
    return Extrapolation.FROM_INSIDE if len(measured) > 1 else Extrapolation.FROM_HOST
