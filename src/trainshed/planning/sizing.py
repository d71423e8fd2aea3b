"""Sizes reducers: how many a job's workers need, the gain of other numbers, and the cost.

The number is Google's rule: the reducers' links together carry at least as much as the workers'
(docs/sources/catalog.md, seed001).  The gain comes from the model in ``exchange``.
"""

from dataclasses import dataclass

from trainshed.catalog.machines import reducers_needed
from trainshed.planning.exchange import Links, best, gain

#: The number of steps from no reducer to enough reducers.
STEPS = 4
#: Two workers exchange as fast by a ring: each link carries the whole tensor either way.
WORKERS_MIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """The machines of an exchange; their rates come from the catalog or from the user."""

    workers: int
    """Worker hosts, the primary's included."""
    worker_gbps: float
    """The rate of the slowest worker's link."""
    total_gbps: float
    """The sum of the rates of the workers' links."""
    reducer_gbps: float
    """The rate of one reducer's link."""
    reducer_usd_hour: float | None = None
    """The price of one reducer; None if unknown."""

    @property
    def sufficient(self) -> int:
        """The fewest reducers that match the workers."""
        return reducers_needed(self.total_gbps, self.reducer_gbps)

    @property
    def helps(self) -> bool:
        """Whether reducers, in any number, can be faster than a ring."""
        return self.workers >= WORKERS_MIN

    @property
    def break_even(self) -> int:
        """The fewest reducers that are as fast as a ring where workers do not help to sum."""
        n = self.workers
        if n == 1:
            return 0
        # N M must pass the reducers' links in the ring's time, 2(N-1)/N M/B
        # (docs/sources/reduction.md 7)
        needed = reducers_needed(n * n * self.worker_gbps / (2 * (n - 1)), self.reducer_gbps)
        return min(needed, self.sufficient)

    def links(self, reducers: int) -> Links:
        """Return the links of the exchange with that many reducers."""
        return Links(
            workers=self.workers,
            worker_gbps=self.worker_gbps,
            reducers_gbps=self.reducer_gbps * reducers,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducerOption:
    """One number of reducers: their bandwidth, their share of the sum, and the gain."""

    reducers: int
    total_gbps: float
    reducers_share: float
    """The share of the tensor that the reducers sum; the workers sum the rest."""
    seconds: float
    """The time of one exchange."""
    gain: float
    """The time of a ring over the time of this exchange."""
    usd_hour: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducerPlan:
    """The options of one job; ``requested`` is None if the job requests no reducers."""

    hosts: Hosts
    gradient_bytes: float
    requested: ReducerOption | None
    sufficient: ReducerOption
    break_even: int
    options: tuple[ReducerOption, ...]
    """From no reducer to enough reducers, in order; ``requested`` and ``sufficient`` are among
    them."""


def plan(hosts: Hosts, requested: int, gradient_bytes: float) -> ReducerPlan:
    """Compare the requested number of reducers (0 for none) with other numbers."""
    enough = hosts.sufficient
    counts = {enough * step // STEPS for step in range(STEPS + 1)} | {requested}
    options = {count: option(hosts, count, gradient_bytes) for count in sorted(counts)}
    return ReducerPlan(
        hosts=hosts,
        gradient_bytes=gradient_bytes,
        requested=options[requested] if requested else None,
        sufficient=options[enough],
        break_even=hosts.break_even,
        options=tuple(options.values()),
    )


def option(hosts: Hosts, reducers: int, gradient_bytes: float) -> ReducerOption:
    """Compute the time, the gain and the price of that many reducers."""
    links = hosts.links(reducers)
    exchange = best(links)
    price = hosts.reducer_usd_hour
    return ReducerOption(
        reducers=reducers,
        total_gbps=links.reducers_gbps,
        reducers_share=exchange.reducers_share,
        seconds=exchange.seconds(gradient_bytes),
        gain=gain(links),
        usd_hour=None if price is None else price * reducers,
    )
