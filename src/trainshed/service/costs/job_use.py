"""Computes what a job used of its machines, from its times and what was measured of its GPUs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from trainshed.planning.amounts import money
from trainshed.planning.goodput import JobTimes
from trainshed.planning.job_cost import JobCost, sum_costs
from trainshed.planning.usage_days import GpuMeasurement
from trainshed.service.costs.prices import PriceSource
from trainshed.service.costs.usage_rows import group_machines, usage_rows
from trainshed.store.opening import Store
from trainshed.store.records.usage import UsageRow, UsageSum, UsingJob

_HOUR_S = 3600.0


def read_job_use(
    store: Store,
    prices: PriceSource,
    job: UsingJob,
    times: JobTimes,
    measured: Mapping[int, Sequence[GpuMeasurement]],
) -> Sequence[UsageRow]:
    """Return what a job has used until now; ``measured`` is by attempt.  Raises StoreFault."""
    gpus = max((attempt.gpus for attempt in times.attempts), default=0)
    machines = group_machines(job.spec, job.demand, has_gpus=gpus > 0)
    now_s = store.now().timestamp()
    return usage_rows(times, now_s, machines, prices.list_for_job(job.spec), measured)


def cost_of_use(use: UsageRow | UsageSum) -> JobCost:
    """Return what machines of one type cost, at the price that was stored with their use."""
    if use.hour_price is None:
        lacking = (f"no price of {use.machine_type} is known",)
        return JobCost(amount=None, currency=None, is_at_least=True, lacking=lacking, parts={})
    parts = {name: use.hour_price * used_s / _HOUR_S for name, used_s in use.seconds.items()}
    return JobCost(
        amount=sum(parts.values()),
        currency=use.currency,
        is_at_least=False,
        parts=parts,
        source=use.price_source,
        date=use.price_date,
    )


def sum_cost(rows: Iterable[UsageRow]) -> JobCost | None:
    """Return the cost of all machines; None without a machine.

    Currencies are not added: the cost is at least that in the one of most rows.
    """
    sums = sum_costs(map(cost_of_use, rows))
    if len(sums) <= 1:
        return sums[0] if sums else None
    first, *others = sums
    amounts = (money(other.amount or 0.0, other.currency or "") for other in others)
    lacking = (*first.lacking, *(f"{amount} more is in another currency" for amount in amounts))
    return replace(first, is_at_least=True, lacking=lacking)


def idle_ratio(rows: Iterable[UsageRow]) -> float:
    """Return the share of the held GPU time in which the GPUs ran nothing; 0 without GPUs."""
    idle_s = held_s = 0.0
    for row in rows:
        idle_s += row.gpus * row.seconds.get("idle", 0.0)
        held_s += row.gpus * sum(row.seconds.values())
    return idle_s / held_s if held_s else 0.0
