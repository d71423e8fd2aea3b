"""What software gets out of a kind of host: nominal rates times shares, as far as they are known.

A share belongs to the software as much as to the machine: of one adapter for eight accelerators
one stack uses a tenth and another a quarter.  So each job has multipliers of its own, which its
short runs find.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from trainshed.planning.scaling.cluster import Cluster
from trainshed.planning.scaling.parameters import Parameters
from trainshed.planning.scaling.step import Rates
from trainshed.planning.scaling.training import Strategy, Training

#: Nobody said how fast the links are: the slowest kind inside a host, a common one between them.
UNKNOWN_INSIDE_BYTES = 12e9
UNKNOWN_NETWORK_BYTES = 1.25e9
#: Host memory carries that many times what one PCIe link does.
_MEMORY_LINKS = 4
_PCIE_BYTES = 12e9
#: Below this a link is slow enough that stacks exchange after their compute, not beside it.
_SLOW_BYTES = 1.5e8
_SLOW_STACKS = ("gloo", "mpi")


def rates_of(
    parameters: Parameters, training: Training, cluster: Cluster, values: Mapping[str, float]
) -> Rates:
    """The rates of a job on hosts of a kind; ``values`` as in ``calibration.Fitted``."""
    known, host = parameters.defaults, cluster.host
    fast = host.inside_bytes > 2 * _PCIE_BYTES
    inside, network = values.get("inside", 1.0), values.get("network", 1.0)
    wire = host.network_bytes or UNKNOWN_NETWORK_BYTES
    server = cluster.server_gbps * 1.25e8 or wire
    share = known.get(f"network_{host.network}", known["network_tcp"])
    sync = known["sync_nvlink" if fast else "sync_pcie"]
    sync += known["sync_input"] * (training.data == "real")
    return Rates(
        inside=(host.inside_bytes or UNKNOWN_INSIDE_BYTES)
        * known["inside_nvlink" if fast else "inside_pcie"]
        * inside,
        network=wire * share * network,
        memory=_MEMORY_LINKS * _PCIE_BYTES * known["memory"] * inside,
        sums=_PCIE_BYTES * known["sums"] * network,
        servers=server * _server_share(known, training, share) * network,
        overlap=values.get("gamma") or overlap_of(parameters, training, host.network_bytes),
        sync=values.get("sigma", sync) * values.get("sync", 1.0),
        sync_first=known["sync_first"],
        stragglers=values.get("delta", known["stragglers"]),
        latency_s=values.get("alpha_s", known["latency_s"]),
        fixed_share=values.get("mu", known["fixed_share"]),
        input_per_s=values.get("input_per_s", math.inf),
    )


def overlap_of(parameters: Parameters, training: Training, network_bytes: float) -> float:
    """How far a stack hides its exchange behind its compute."""
    slow = any(name in training.stack.lower() for name in _SLOW_STACKS)
    slow |= 0 < network_bytes < _SLOW_BYTES
    return parameters.defaults["overlap_slow" if slow else "overlap_fast"]


def _server_share(known: Mapping[str, float], training: Training, share: float) -> float:
    return known["servers"] if training.strategy is Strategy.PS_NAIVE else share


def at_batch(training: Training, batch: float) -> Training:
    """The same training with other samples a step and accelerator."""
    if batch in (0, training.batch_per_accelerator):
        return training
    return replace(training, batch_per_accelerator=batch)


def compute_at(compute_s: float, training: Training, batch: float, fixed_share: float) -> float:
    """Seconds of compute at another batch; a share of a step does not shrink with it."""
    ratio = batch / training.batch_per_accelerator if batch else 1.0
    return compute_s * (ratio + fixed_share) / (1 + fixed_share)
