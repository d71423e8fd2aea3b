"""Makes the rows of an attempt's use of machines by GPU and node, one for each day."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from trainshed.model.job import JobSpec
from trainshed.model.resources import Demand, JobDemand
from trainshed.planning.goodput import AttemptTimes, Goodput
from trainshed.planning.machine_parts import MachinePart, MachineSlot
from trainshed.planning.prices import HourPrice, paid_for
from trainshed.planning.usage_days import DayUse, day_uses
from trainshed.service.costs.machine_groups import MachineGroup, count_vcpus_of, name_type
from trainshed.store.records.usage import MachineRow, UsingReplica

#: The most watts of a GPU that are believed: the programs of a job may change its samples.
POWER_W_MAX: Final = 5000.0
#: The longest time of a sample, which may have begun before the attempt.
_SAMPLE_S: Final = 60.0


class PricedGroup(NamedTuple):
    """All machines of one type of a job, with their price; None without a price."""

    group: MachineGroup
    price: HourPrice | None


def list_slots(
    spec: JobSpec,
    demand: JobDemand,
    replicas: Sequence[UsingReplica],
    *,
    has_gpus: bool = True,
) -> Sequence[MachineSlot]:
    """Return the machines of an attempt; without ``replicas`` they are on an unknown node."""
    demands = {group.role: group.each for group in demand.groups}
    by_role: dict[str, list[UsingReplica]] = {}
    for replica in replicas:
        by_role.setdefault(replica.role, []).append(replica)
    slots: list[MachineSlot] = []
    for group in spec.groups:
        demand_of_one = demands.get(group.role, Demand())
        of_group = by_role.get(group.role.value, [])
        one = MachineSlot(
            machine_type=name_type(paid_for(group)),
            gpus=demand_of_one.gpu_count * has_gpus,
            vcpus=count_vcpus_of(group, demand_of_one),
        )
        slots += [
            replace(one, engine=replica.engine, node=replica.node, task=replica.task_name)
            for replica in of_group[: group.count]
        ]
        slots += [one] * (group.count - len(of_group))
    return slots


def machine_rows(
    times: AttemptTimes,
    goodput: Goodput,
    parts: Sequence[MachinePart],
    groups: Mapping[str, PricedGroup],
) -> Sequence[MachineRow]:
    """Return the rows of an attempt; ``groups`` are by machine type."""
    uses = [_uses_of_part(times, goodput, part) for part in parts]
    mean = _mean_of_gpus(parts, uses)
    return [
        row
        for part, part_uses in zip(parts, uses, strict=True)
        for row in _rows_of_part(
            times, part, part_uses if part.gpus or not mean else mean, groups[part.machine_type]
        )
    ]


def _uses_of_part(times: AttemptTimes, goodput: Goodput, part: MachinePart) -> Sequence[DayUse]:
    uses = day_uses(times, goodput, part.measurements)
    return [_check_energy(use, part.gpus) for use in uses]


def _check_energy(use: DayUse, gpus: int) -> DayUse:
    """Return the use without its energy if GPUs cannot have used so much."""
    most_j = POWER_W_MAX * gpus * (_SAMPLE_S + sum(use.seconds.values()))
    return use if use.energy_j is None or use.energy_j <= most_j else replace(use, energy_j=None)


def _mean_of_gpus(
    parts: Sequence[MachinePart], uses: Sequence[Sequence[DayUse]]
) -> Sequence[DayUse]:
    """Return the mean time of all GPUs of an attempt: that of its machines without; else empty."""
    by_day: dict[int, list[tuple[float, Mapping[str, float]]]] = defaultdict(list)
    for part, part_uses in zip(parts, uses, strict=True):
        for use in part_uses if part.gpus else ():
            by_day[use.day].append((part.gpus, use.seconds))
    return [DayUse(day=day, seconds=mean_seconds(pairs)) for day, pairs in by_day.items()]


def mean_seconds(pairs: Sequence[tuple[float, Mapping[str, float]]]) -> Mapping[str, float]:
    """Return the mean of the seconds by use; ``pairs`` have the weights, which are above 0."""
    total: dict[str, float] = defaultdict(float)
    for weight, seconds in pairs:
        for use, used_s in seconds.items():
            total[use] += weight * used_s
    weights = sum(weight for weight, _ in pairs)
    return {use: used_s / weights for use, used_s in total.items()}


def _rows_of_part(
    times: AttemptTimes, part: MachinePart, uses: Sequence[DayUse], priced: PricedGroup
) -> Iterator[MachineRow]:
    group, price = priced
    share = part.gpus / group.gpus if group.gpus else part.machines / group.count
    for use in uses:
        yield MachineRow(
            attempt=times.attempt,
            machine_type=part.machine_type,
            day=use.day,
            engine=part.engine,
            node=part.node,
            gpu=part.gpu,
            gpu_index=part.gpu_index,
            gpu_type=part.gpu_type,
            gpus=part.gpus,
            vcpus=part.vcpus,
            seconds=use.seconds,
            energy_j=use.energy_j,
            hour_price=share * price.amount if price else None,
            currency=price.currency if price else "",
        )
