"""Computes what the machines of a job cost, and which part of it each use of their time cost.

A machine type without a price makes the sum a lower limit and is named: its hours are not free.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trainshed.planning.prices import HourPrice, Machines, PriceList

_HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCost:
    """An amount of money with the parts that make it up."""

    amount: float | None
    """The sum of ``parts``; None if no machine has a price."""
    currency: str | None
    """For example USD; None if no machine has a price."""
    is_at_least: bool
    """Whether some machines have no price, so that the true amount is higher."""
    lacking: tuple[str, ...] = ()
    """A sentence for each machine type without a price."""
    parts: Mapping[str, float]
    """The amount for each use of the time, by its name; empty without an amount."""
    source: str = ""
    date: str = ""
    """The day of the oldest price list in use, for example 2026-11-01; empty if unknown."""

    @property
    def document(self) -> dict[str, object]:
        """The cost as JSON has it."""
        return {
            "amount": self.amount,
            "currency": self.currency,
            "at_least": self.is_at_least,
            "lacking": list(self.lacking),
            "parts": dict(self.parts),
            "source": self.source or None,
            "date": self.date or None,
        }


def split_cost(
    cluster: Sequence[Machines], prices: PriceList, seconds: Mapping[str, float]
) -> JobCost:
    """Return the cost of all machines of a cluster for the seconds in which a job held them.

    ``seconds`` has the held seconds by their use (``productive``); waiting is free, so the caller
    leaves it out.
    """
    priced = [machines for machines in cluster if prices.of([machines])]
    lacking = tuple(dict.fromkeys(prices.lacking(cluster)))
    price = prices.of(priced)
    if price is None:
        return JobCost(
            amount=None, currency=None, is_at_least=bool(lacking), lacking=lacking, parts={}
        )
    return _cost_of(price, lacking, seconds)


def _cost_of(price: HourPrice, lacking: tuple[str, ...], seconds: Mapping[str, float]) -> JobCost:
    parts = {use: price.amount * used_s / _HOUR_S for use, used_s in seconds.items()}
    return JobCost(
        amount=sum(parts.values()),
        currency=price.currency,
        is_at_least=bool(lacking),
        lacking=lacking,
        parts=parts,
        source=", ".join(price.sources),
        date=min(price.dates, default=""),
    )


def sum_costs(costs: Iterable[JobCost]) -> Sequence[JobCost]:
    """Add costs of one currency each; one sum for each currency, the largest share first.

    A cost without an amount makes every sum a lower limit.
    """
    costs = [cost for cost in costs if cost.amount is not None or cost.is_at_least]
    by_currency: dict[str | None, list[JobCost]] = {}
    for cost in costs:
        by_currency.setdefault(cost.currency, []).append(cost)
    unpriced = by_currency.pop(None, [])
    if not by_currency:
        return [_sum_one(unpriced)] if unpriced else []
    largest = sorted(by_currency.values(), key=len, reverse=True)
    return [_sum_one([*same, *unpriced]) for same in largest]


def _sum_one(costs: Sequence[JobCost]) -> JobCost:
    priced = [cost for cost in costs if cost.amount is not None]
    parts: dict[str, float] = {}
    for cost in priced:
        for use, amount in cost.parts.items():
            parts[use] = parts.get(use, 0.0) + amount
    return JobCost(
        amount=sum(cost.amount or 0.0 for cost in priced) if priced else None,
        currency=priced[0].currency if priced else None,
        is_at_least=any(cost.is_at_least for cost in costs),
        lacking=tuple(dict.fromkeys(name for cost in costs for name in cost.lacking)),
        parts=parts,
        source=", ".join(dict.fromkeys(cost.source for cost in priced if cost.source)),
        date=min((cost.date for cost in priced if cost.date), default=""),
    )
