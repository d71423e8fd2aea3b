"""Computes the time of one exchange of gradients over given links, by ring or by reducers.

Only links count: each carries its rate in both directions at once, and every host sums as fast as
its link delivers (docs/sources/reduction.md 3.5).  A worker that sums shares of the tensor receives
them from the other workers and sends the sums back, as a reducer does.  A ring does the same work,
so ring, reducers and every mixture of them are one formula: the optimum of BytePS
(docs/sources/reduction.md 1) for links of unequal rates.
"""

import math
from dataclasses import dataclass

_BITS = 8
_GIGA = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The links of an exchange, Gbit/s each way.  Raises ValueError for impossible rates.

    Reducers need not be alike: each sums in proportion to its link, so that they count as one.
    """

    workers: int
    """Worker hosts: replicas on one host sum among themselves first (docs/sources/reduction.md 4).
    """
    worker_gbps: float
    """The rate of the slowest worker, for which all wait."""
    reducers_gbps: float = 0.0
    """The rate of all reducers together; 0 without any."""

    def __post_init__(self) -> None:
        if self.workers < 1 or not 0 < self.worker_gbps < math.inf:
            raise ValueError(f"an exchange needs workers with links above 0 Gbit/s, got {self}")
        if not 0 <= self.reducers_gbps < math.inf:
            raise ValueError(
                f"the rate of reducers must be 0 Gbit/s or more, got {self.reducers_gbps}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeSplit:
    """The shares of a tensor that workers and reducers sum, and the time of the exchange."""

    seconds_per_gbit: float
    worker_share: float
    """The share that each worker sums."""
    reducers_share: float
    """The share that all reducers sum; all shares of workers and reducers add up to 1."""

    def seconds(self, size_bytes: float) -> float:
        """Return the time of an exchange of a gradient, in seconds."""
        return self.seconds_per_gbit * size_bytes * _BITS / _GIGA


def ring(links: Links) -> ExchangeSplit:
    """Return the split of a ring: each worker sums an equal share.

    A link carries 2(N-1)/N of M each way; N is the number of workers, M the size of the tensor.
    """
    of_all = 2 * (links.workers - 1) / links.workers
    return ExchangeSplit(
        seconds_per_gbit=of_all / links.worker_gbps,
        worker_share=1 / links.workers,
        reducers_share=0.0,
    )


def reducers_alone(links: Links) -> ExchangeSplit:
    """Return the split in which reducers sum everything; ``links`` must have a reducer.

    A worker's link carries M each way, and the reducers' links together N times M.
    """
    seconds = max(1 / links.worker_gbps, links.workers / links.reducers_gbps)
    return ExchangeSplit(seconds_per_gbit=seconds, worker_share=0.0, reducers_share=1.0)


def best(links: Links) -> ExchangeSplit:
    """Return the fastest split of the sum between workers and reducers.

    If each worker sums a share s of the tensor, its link carries M(1 + (N-2)s).  A reducer's link
    carries N times the share of that reducer.  The split is fastest if all links take equally
    long.  Without reducers it is the ring; with enough reducers the workers sum nothing.
    """
    n, reducers_gbps = links.workers, links.reducers_gbps
    if n == 1 or not reducers_gbps:
        return ring(links)
    seconds = (2 * n - 2) / (n * links.worker_gbps + (n - 2) * reducers_gbps / n)
    of_reducers = seconds * reducers_gbps / n
    if of_reducers >= 1:
        return reducers_alone(links)
    return ExchangeSplit(
        seconds_per_gbit=seconds,
        worker_share=(1 - of_reducers) / n,
        reducers_share=of_reducers,
    )


def gain(links: Links) -> float:
    """Return how many times as fast as a ring the best split is; 1 for a single worker."""
    if links.workers == 1:
        return 1.0
    return ring(links).seconds_per_gbit / best(links).seconds_per_gbit
