"""Reads what a job used of its machines, from its times and its measured usage."""

from collections.abc import Iterable, Mapping, Sequence

from trainshed.engines.capabilities import SupportsUsage
from trainshed.engines.several import Engines
from trainshed.model.attempt import AttemptKey
from trainshed.model.usage import UsageLine
from trainshed.planning.goodput import JobTimes
from trainshed.planning.job_cost import JobCost, sum_costs
from trainshed.planning.usage_days import GpuMeasurement
from trainshed.service.costs.prices import PriceSource
from trainshed.service.costs.usage_rows import group_machines, measure_gpus, usage_rows
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.usage import UsageRow, UsageSum

_HOUR_S = 3600.0


def read_job_use(
    store: Store, engines: Engines, prices: PriceSource, record: JobRecord, times: JobTimes
) -> Sequence[UsageRow]:
    """Return what a job has used until now.  Raises StoreFault."""
    spec = store.expanded(record.uid)
    gpus = max((attempt.gpus for attempt in times.attempts), default=0)
    machines = group_machines(spec, store.demand(record.uid), has_gpus=gpus > 0)
    measured = _measure(store, engines, record.uid, times, gpus) if gpus else {}
    now_s = store.now().timestamp()
    return usage_rows(times, now_s, machines, prices.list_for_job(spec), measured)


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
    """Return the cost of all machines; None for two currencies, which are not added."""
    sums = sum_costs(map(cost_of_use, rows))
    return sums[0] if len(sums) == 1 else None


def idle_ratio(rows: Iterable[UsageRow]) -> float:
    """Return the share of the held GPU time in which the GPUs ran nothing; 0 without GPUs."""
    idle_s = held_s = 0.0
    for row in rows:
        idle_s += row.gpus * row.seconds.get("idle", 0.0)
        held_s += row.gpus * sum(row.seconds.values())
    return idle_s / held_s if held_s else 0.0


def _measure(
    store: Store, engines: Engines, uid: int, times: JobTimes, gpus: int
) -> Mapping[int, Sequence[GpuMeasurement]]:
    skew_s = store.clock_skew_s()
    keys = {attempt.attempt: AttemptKey(uid, attempt.attempt) for attempt in times.attempts}
    return {
        attempt: measure_gpus(_read_lines(engines, key), gpus, skew_s)
        for attempt, key in keys.items()
    }


def _read_lines(engines: Engines, key: AttemptKey) -> Sequence[UsageLine]:
    """Return the usage of an attempt; empty if it cannot be read now."""
    try:
        engine = engines.get_by_attempt(key)
        return engine.read_usage(key) if isinstance(engine, SupportsUsage) else ()
    except OSError:
        return ()
