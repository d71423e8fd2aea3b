"""Effective rates of software on a kind of host: nominal rates times shares.

A share depends on the software as well as on the machine: of one adapter for eight accelerators one
stack uses a tenth and another a quarter.  So each job has multipliers of its own, which its short
runs determine.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.parameters import Parameters
from trainshed.planning.scaling.step import Rates
from trainshed.planning.scaling.training import StepBatch, Strategy, Training

#: Defaults for unknown links: the slowest kind inside a host, a common one between hosts, and
#: between pods 25 Gbit/s for each of their accelerators.
UNKNOWN_INSIDE_BYTES = 12e9
UNKNOWN_NETWORK_BYTES = 1.25e9
UNKNOWN_POD_BYTES = 3.125e9
#: The bandwidth of host memory, as a multiple of one PCIe link's.
_MEMORY_LINKS = 4
_PCIE_BYTES = 12e9
_GIGA_BITS = 1.25e8
#: Over links slower than this, in bytes/s, stacks exchange after their compute and not during it.
_SLOW_BYTES = 1.5e8
_SLOW_STACKS = ("gloo", "mpi")
#: Precisions of at most 16 bits: compute takes less time, so waiting is a larger share.
_HALVES = frozenset({"amp", "amp_bf16", "amp_fp16", "fp16", "bf16", "fp8"})
_ADAPTER_BYTES = 12.5e9
_OVERLAP = (1.0, 6.0)
_LEAST_COMPUTE_S = 0.01


def rates_of(
    constants: Parameters, training: Training, cluster: Cluster, values: Mapping[str, float]
) -> Rates:
    """Return the rates of a job on hosts of a kind; ``values`` as in ``calibration.Fitted``."""
    shares, host = constants.defaults, cluster.host
    usual = usual_values(constants, training, host)
    job_values = {**usual, **values}
    # a stack that loses much inside a host was seen to exchange slowly between hosts too
    inside, network = job_values["inside"], job_values["network"] / job_values["sync"]
    wire = network_bytes(host)
    share = _network_share(constants, host)
    naive = training.strategy is Strategy.PS_NAIVE
    server = cluster.server_gbps * _GIGA_BITS or wire
    nominal = host.inside_bytes or UNKNOWN_INSIDE_BYTES
    latency_factor = job_values["alpha_s"] / usual["alpha_s"]
    return Rates(
        inside=nominal * shares["inside_nvlink" if _fast(host) else "inside_pcie"] * inside,
        network=wire * share * network,
        memory=_MEMORY_LINKS * _PCIE_BYTES * shares["memory"] * inside,
        sums=_PCIE_BYTES * shares["sums"] * network,
        servers=server * (shares["servers"] if naive else share) * network,
        overlap=min(_OVERLAP[1], max(_OVERLAP[0], job_values["gamma"])),
        sync=job_values.get("sigma", _sync(constants, training, host)) * job_values["sync"],
        sync_first=shares["sync_first"],
        stragglers=0.0 if training.asynchronous else job_values["delta"],
        latency_s=job_values["alpha_s"],
        inside_latency_s=shares["inside_latency_s"] * latency_factor,
        fixed_part=job_values["phi"],
        flat=shares["flat"],
        fixed_share=_fixed_share(constants, training, job_values),
        input_per_s=job_values.get("input_per_s", math.inf),
    )


def usual_values(constants: Parameters, training: Training, host: HostKind) -> dict[str, float]:
    """Return the values of an unmeasured job; its compute is unknown."""
    return {
        "inside": 1.0,
        "network": 1.0,
        "sync": 1.0,
        "delta": constants.defaults["stragglers"],
        "gamma": _overlap(constants, training, host),
        "alpha_s": constants.defaults["latency_s"],
        "mu": constants.defaults["fixed_share"],
        "phi": 0.0,
    }


def network_bytes(host: HostKind) -> float:
    """Return the nominal rate of a host's link, or a common one if it is unknown."""
    unknown = UNKNOWN_POD_BYTES * host.per_host if host.network == "dcn" else UNKNOWN_NETWORK_BYTES
    return host.network_bytes or unknown


def at_batch(training: Training, batch: StepBatch) -> Training:
    """Return the training with another batch per accelerator."""
    return replace(
        training,
        batch_per_accelerator=batch.samples or training.batch_per_accelerator,
        micro_batches=batch.micro_batches or training.micro_batches,
    )


def compute_at(compute_s: float, training: Training, other: Training, fixed_share: float) -> float:
    """Return the seconds of compute with the batch of ``other``.

    ``compute_s`` are those of ``training``.  The part ``fixed_share`` of a micro batch does not
    shrink with its samples.
    """
    ratio = other.batch_per_accelerator / training.batch_per_accelerator
    times = other.micro_batches / training.micro_batches
    return compute_s * (ratio + times * fixed_share) / (1 + fixed_share)


def _network_share(constants: Parameters, host: HostKind) -> float:
    """Return the share of a network's rate that software reaches: less on fast adapters."""
    if host.network in {"tcp", "dcn"}:
        return constants.defaults[f"network_{host.network}"]
    of_adapter = min(1.0, network_bytes(host) / _ADAPTER_BYTES)
    lost = math.pow(of_adapter, constants.defaults["crowding"])
    return min(1.0, constants.defaults["network_rdma"] / lost)


def _fast(host: HostKind) -> bool:
    return host.inside_bytes > 2 * _PCIE_BYTES


def _overlap(constants: Parameters, training: Training, host: HostKind) -> float:
    """Return how much a stack overlaps its exchange with its compute (gamma)."""
    slow = any(name in training.stack.lower() for name in _SLOW_STACKS)
    slow |= 0 < host.network_bytes < _SLOW_BYTES
    return constants.defaults["overlap_slow" if slow else "overlap_fast"]


def _sync(constants: Parameters, training: Training, host: HostKind) -> float:
    loss = constants.defaults["sync_nvlink" if _fast(host) else "sync_pcie"]
    loss += constants.defaults["sync_input"] * (training.data == "real")
    loss += constants.defaults["sync_halves"] * (training.precision in _HALVES)
    is_sparse = training.parameters > 0 and not training.gradient_bytes
    return loss + constants.defaults["sync_sparse"] * is_sparse


def _fixed_share(constants: Parameters, training: Training, values: Mapping[str, float]) -> float:
    """Return the share of a micro batch that does not shrink with it (mu, with a fixed time)."""
    micro_s = values.get("compute_s", math.inf) / training.micro_batches
    fixed_part = constants.defaults["fixed_s"] / max(micro_s, _LEAST_COMPUTE_S)
    return values["mu"] * (1 + fixed_part / constants.defaults["fixed_share"])
