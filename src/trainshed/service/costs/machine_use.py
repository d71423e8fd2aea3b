"""Adds sums of stored time to one entry of a report."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from trainshed.planning.job_cost import sum_costs
from trainshed.service.costs.job_use import cost_of_use
from trainshed.service.costs.usage_answers import MachineUse
from trainshed.store.records.usage import UsageSum


def machine_use(key: str, sums: Sequence[UsageSum], jobs: int) -> MachineUse:
    """Return the sum of ``sums``, which are those of one key."""
    joules = [usage.energy_j for usage in sums if usage.energy_j is not None]
    costs = [cost.document for cost in sum_costs(map(cost_of_use, sums))]
    return MachineUse(
        key=key,
        user=sums[0].user if sums else "",
        jobs=jobs,
        gpu_seconds=_add_seconds((usage.seconds, usage.gpus) for usage in sums),
        vcpu_seconds=_add_seconds((usage.seconds, usage.vcpus) for usage in sums if not usage.gpus),
        energy_j=sum(joules) if joules else None,
        cost=costs[0] if costs else None,
        other_costs=costs[1:],
    )


def _add_seconds(parts: Iterable[tuple[Mapping[str, float], float]]) -> Mapping[str, float]:
    total: dict[str, float] = defaultdict(float)
    for seconds, count in parts:
        for use, used_s in seconds.items() if count else ():
            total[use] += count * used_s
    return round_seconds(total)


def round_seconds(seconds: Mapping[str, float]) -> Mapping[str, float]:
    """Round to milliseconds."""
    return {use: round(used_s, 3) for use, used_s in seconds.items()}
