"""Makes the rows of a job's use of machines: one for each attempt, machine type and day.

They are the sums of its rows by GPU and node.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from trainshed.planning.goodput import AttemptTimes, JobTimes, attempt_goodputs
from trainshed.planning.machine_parts import MachinePart
from trainshed.planning.prices import PriceList
from trainshed.service.costs.machine_groups import MachineGroup
from trainshed.service.costs.machine_rows import PricedGroup, machine_rows, mean_seconds
from trainshed.store.records.usage import MachineRow, UsageRow

_NS_PER_S: Final = 1_000_000_000


class UsedMachines(NamedTuple):
    """The time of the machines of a job."""

    rows: Sequence[UsageRow]
    """By attempt, machine type and day."""
    machines: Sequence[MachineRow]
    """The same time by GPU and node."""


def used_machines(
    job: JobTimes,
    now_s: float,
    machines: Mapping[str, MachineGroup],
    prices: PriceList,
    parts: Mapping[int, Sequence[MachinePart]],
) -> UsedMachines:
    """Return the rows of all attempts of a job; ``parts`` are all its machines, by attempt."""
    groups = {
        name: PricedGroup(group, prices.of(group.machines)) for name, group in machines.items()
    }
    rows: list[UsageRow] = []
    machine_parts: list[MachineRow] = []
    for times, goodput in zip(job.attempts, attempt_goodputs(job, now_s), strict=True):
        of_attempt = machine_rows(times, goodput, parts[times.attempt], groups)
        machine_parts += of_attempt
        rows += _sum_rows(times, of_attempt, groups)
    return UsedMachines(rows, machine_parts)


def _sum_rows(
    times: AttemptTimes, machines: Sequence[MachineRow], groups: Mapping[str, PricedGroup]
) -> Iterator[UsageRow]:
    """Yield the sums of the rows of an attempt by machine type and day."""
    by_key: dict[tuple[str, int], list[MachineRow]] = defaultdict(list)
    for row in machines:
        by_key[row.machine_type, row.day].append(row)
    for (name, day), parts in by_key.items():
        group, price = groups[name]
        joules = [row.energy_j for row in parts if row.energy_j is not None]
        yield UsageRow(
            attempt=times.attempt,
            machine_type=name,
            day=day,
            gpus=group.gpus,
            vcpus=group.vcpus,
            placed_ns=round(times.placed_s * _NS_PER_S),
            end_ns=None if times.ended_s is None else round(times.ended_s * _NS_PER_S),
            seconds=mean_seconds([(row.gpus or 1, row.seconds) for row in parts]),
            energy_j=sum(joules) if joules else None,
            hour_price=price.amount if price else None,
            currency=price.currency if price else "",
            price_source=", ".join(price.sources) if price else "",
            price_date=min(price.dates, default="") if price else "",
        )
