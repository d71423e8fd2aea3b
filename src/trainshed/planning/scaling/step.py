"""The time of one step: compute, exchange inside a host and between hosts, input.

t = smooth maximum of t_in and (C^gamma + T^gamma)^(1/gamma)        docs/sources/planner.md 3
"""

import math
from dataclasses import dataclass

from trainshed.planning.exchange import Links, gain, ring
from trainshed.planning.scaling.cluster import Cluster
from trainshed.planning.scaling.training import Strategy, Training

_GIGA_BITS = 1.25e8
#: The synchronisation inside a host is given for eight accelerators: three doublings.
_DOUBLINGS = 3
#: Input is fetched during the step: the slower of the two decides; if they are close, both count.
INPUT_OVERLAP = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The rates that software reaches on one kind of host, in bytes/s one way, and its losses."""

    inside: float
    """The rate between the accelerators of a host (G_i)."""
    network: float
    """The rate of a host's link (G_n)."""
    memory: float
    """The rate of variables in host memory (G_p)."""
    sums: float
    """The rate of sums in host memory (G_c)."""
    servers: float
    """The rate of one parameter server's link (G_s)."""
    overlap: float
    """1: the exchange follows the compute; with larger values they overlap more (gamma)."""
    sync: float
    """The share of compute that a host of eight loses (sigma)."""
    sync_first: float
    """The share of ``sync`` that the second accelerator causes (w)."""
    stragglers: float
    """The share of compute that each doubling of hosts loses (delta)."""
    latency_s: float
    """Seconds that each doubling of hosts adds to an exchange, each way (alpha)."""
    fixed_share: float
    """The share of a step at the measured batch that does not shrink with the batch (mu)."""
    inside_latency_s: float = 0.0
    """Seconds that each doubling of accelerators inside a host adds to an exchange."""
    fixed_part: float = 0.0
    """The share of compute that every further accelerator adds (phi), as a fixed part does."""
    flat: float = 0.0
    """0: one ring over hosts after sums inside each; 1: one ring over all accelerators."""
    input_per_s: float = math.inf
    """Samples/s that one host's input pipeline delivers (R_in)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepParts:
    """The parts of a step, each in the seconds that it would take without the others."""

    compute: float
    sync: float
    """Seconds that synchronisation and stragglers add to the compute."""
    fixed: float
    """Seconds that a part adds which more accelerators do not shorten."""
    inside: float
    network: float
    input: float
    micro_batches: int = 1
    """The exchange overlaps with the compute of the last of them only."""

    @property
    def without_exchange(self) -> float:
        """Seconds of a step that exchanges nothing and does not wait for input."""
        return self.compute + self.sync + self.fixed

    def seconds(self, overlap: float) -> float:
        """Return the seconds of a step, by smooth maxima of compute, exchange and input."""
        return smooth_maximum(self.without_input(overlap), self.input, INPUT_OVERLAP)

    def without_input(self, overlap: float) -> float:
        """Return the seconds of a step that does not wait for input."""
        last = self.without_exchange / self.micro_batches
        earlier = last * (self.micro_batches - 1)
        return earlier + smooth_maximum(last, self.inside + self.network, overlap)


def smooth_maximum(a: float, b: float, overlap: float) -> float:
    """Return the sum for ``overlap`` 1, nearly the maximum for large ones; one must be above 0."""
    most, least = max(a, b), min(a, b)
    return most * math.pow(1 + math.pow(least / most, overlap), 1 / overlap)


def parts_of(training: Training, cluster: Cluster, rates: Rates, compute_s: float) -> StepParts:
    """Return the parts of a step whose compute takes ``compute_s`` on one accelerator alone."""
    g, h = cluster.per_host, cluster.hosts
    doublings = math.log2(h) if h > 1 else 0.0
    first, rest = rates.sync_first * (g > 1), (1 - rates.sync_first) * math.log2(max(g, 1.0))
    lost = rates.sync * (first + rest / _DOUBLINGS) + rates.stragglers * doublings
    latency = 2 * rates.latency_s * doublings if training.gradient_bytes else 0.0
    return StepParts(
        compute=compute_s,
        sync=compute_s * lost,
        fixed=compute_s * rates.fixed_part * (cluster.accelerators - 1),
        inside=_inside(training, cluster, rates) + rates.inside_latency_s * math.log2(max(g, 1.0)),
        network=_network(training, cluster, rates) + latency,
        input=training.batch_per_accelerator * g / rates.input_per_s,
        micro_batches=training.micro_batches,
    )


def _inside(training: Training, cluster: Cluster, rates: Rates) -> float:
    g, size = cluster.per_host, training.gradient_bytes
    if g <= 1 or not size:
        return 0.0
    match training.strategy:
        case Strategy.FSDP:
            return 3 * (g - 1) / g * size / rates.inside
        case Strategy.ALLREDUCE_CPU | Strategy.PS_CPU:
            return 2 * g * size / rates.memory
        case Strategy.PS_GPU:
            return 2 * (g - 1) * size / rates.inside
        case Strategy.PS_NAIVE:
            return 0.0
        case _:
            return 2 * (g - 1) / g * size / rates.inside


def _network(training: Training, cluster: Cluster, rates: Rates) -> float:  # noqa: PLR0911 - a table
    h, size = cluster.hosts, training.gradient_bytes
    if not size or (h == 1 and training.strategy is not Strategy.PS_NAIVE):
        return 0.0
    allreduce_s = _allreduce_s(cluster, rates, size)
    match training.strategy:
        case Strategy.FSDP:
            return 1.5 * allreduce_s
        case Strategy.ALLREDUCE_CPU:
            return max(allreduce_s, _ring_s(h, rates.sums, size))
        case Strategy.PS_DISTRIBUTED if cluster.servers:
            return max(size / rates.network, h * _largest_share(training, cluster) / rates.servers)
        case Strategy.PS_NAIVE:
            n = cluster.accelerators
            return n * _largest_share(training, cluster) / rates.servers if n > 1 else 0.0
        case Strategy.REDUCERS | Strategy.ALLREDUCE if cluster.reducers and cluster.reducer_gbps:
            return allreduce_s / gain(_nominal(cluster, rates))
        case _:
            return allreduce_s


def _nominal(cluster: Cluster, rates: Rates) -> Links:
    """Return the nominal links: software loses the same share of workers' and reducers'."""
    return Links(
        workers=cluster.hosts,
        worker_gbps=cluster.host.network_gbps or rates.network / _GIGA_BITS,
        reducers_gbps=cluster.reducers * cluster.reducer_gbps,
    )


def _allreduce_s(cluster: Cluster, rates: Rates, size: float) -> float:
    """Return the seconds of an all-reduce of ``size`` bytes.

    The time of communication libraries is between one ring over the hosts (``rates.flat`` is 0) and
    one ring over all accelerators (``rates.flat`` is 1).
    """
    over_hosts, over_all = (
        _ring_s(count, rates.network, size) for count in (cluster.hosts, cluster.accelerators)
    )
    return over_hosts + rates.flat * (over_all - over_hosts)


def _ring_s(workers: int, rate: float, size: float) -> float:
    """Return the seconds of one ring over workers at ``rate`` bytes/s."""
    return ring(Links(workers=workers, worker_gbps=rate / _GIGA_BITS)).seconds(size)


def _largest_share(training: Training, cluster: Cluster) -> float:
    """Return the bytes of the busiest parameter server: a variable is never split."""
    size = training.gradient_bytes
    largest = size * training.largest / training.parameters if training.parameters else 0.0
    return max(size / max(1, cluster.servers or cluster.hosts), largest)
