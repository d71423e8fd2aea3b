"""Computes what a job used of its machines, from its times and what was measured of its GPUs."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from trainshed.planning.amounts import money
from trainshed.planning.goodput import JobTimes
from trainshed.planning.job_cost import JobCost, sum_costs
from trainshed.planning.machine_parts import divide_machines
from trainshed.service.costs.gpu_measurements import AttemptGpus
from trainshed.service.costs.held_gpus import FleetReads
from trainshed.service.costs.machine_groups import group_machines
from trainshed.service.costs.machine_rows import list_slots
from trainshed.service.costs.prices import PriceSource
from trainshed.service.costs.usage_rows import UsedMachines, used_machines
from trainshed.store.opening import Store
from trainshed.store.records.usage import UsageRow, UsageSum, UsingJob

_HOUR_S = 3600.0


def read_job_use(  # noqa: PLR0913, PLR0917 - the values of its rows
    store: Store,
    prices: PriceSource,
    job: UsingJob,
    times: JobTimes,
    measured: Mapping[int, AttemptGpus],
    fleet: FleetReads | None = None,
) -> UsedMachines:
    """Return what a job has used until now; ``measured`` is by attempt.  Raises StoreFault.

    ``fleet`` is for callers with many jobs.
    """
    has_gpus = any(attempt.gpus for attempt in times.attempts)
    reported = (fleet or FleetReads(store)).list_gpus() if any(measured.values()) else {}
    machines = group_machines(job.spec, job.demand, has_gpus=has_gpus)
    parts = {
        number: divide_machines(
            list_slots(job.spec, job.demand, job.replicas.get(number, ()), has_gpus=has_gpus),
            measured.get(number, {}),
            reported,
        )
        for number in (attempt.attempt for attempt in times.attempts)
    }
    now_s = store.now().timestamp()
    return used_machines(times, now_s, machines, prices.list_for_job(job.spec), parts)


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
