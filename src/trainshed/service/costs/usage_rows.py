"""Makes the rows of a job's use of machines: one for each attempt, machine type and day."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trainshed.catalog.machines import known_machines
from trainshed.model.job import JobSpec, ReplicaGroup
from trainshed.model.resources import Demand, JobDemand
from trainshed.model.usage import UsageLine
from trainshed.planning.goodput import AttemptTimes, JobTimes, attempt_goodputs
from trainshed.planning.prices import Machines, PriceList, paid_for
from trainshed.planning.usage_days import DayUse, GpuMeasurement, day_uses
from trainshed.store.records.usage import UsageRow

_NS_PER_S = 1_000_000_000
#: The most watts of a GPU that are believed: the programs of a job may change its samples.
POWER_W_MAX = 5000.0
#: The longest time of a sample, which may have begun before the attempt.
_SAMPLE_S = 60.0


@dataclass(slots=True)
class MachineGroup:
    """All machines of one type of a job."""

    machines: list[Machines] = field(default_factory=list)
    gpus: int = 0
    vcpus: float = 0.0


def group_machines(
    spec: JobSpec, demand: JobDemand, *, has_gpus: bool = True
) -> Mapping[str, MachineGroup]:
    """Return the machines of a job by type, with attached accelerators in the type's name.

    ``spec`` is expanded; machines without a name are of the type ``unnamed``.  ``has_gpus`` says
    whether the nodes of the job have the GPUs of its demand.
    """
    demands = {group.role: group.each for group in demand.groups}
    groups: dict[str, MachineGroup] = {}
    for group in spec.groups:
        machines, demand_of_one = paid_for(group), demands.get(group.role, Demand())
        total = groups.setdefault(_type_name(machines), MachineGroup())
        total.machines.append(machines)
        total.gpus += group.count * demand_of_one.gpu_count * has_gpus
        total.vcpus += group.count * _vcpus(group, demand_of_one)
    return groups


def _type_name(machines: Machines) -> str:
    name = machines.machine_type or "unnamed"
    if not machines.accelerators:
        return name
    return f"{name} with {machines.accelerators} {machines.accelerator}"


def _vcpus(group: ReplicaGroup, demand: Demand) -> float:
    if demand.vcpus:
        return float(demand.vcpus)
    machine = known_machines().get(group.machine_type or "")
    return float((machine and machine.vcpus) or 0)


def measure_gpus(
    lines: Sequence[UsageLine], gpus: int, skew_s: float = 0.0
) -> Sequence[GpuMeasurement]:
    """Return the idle time and the energy of an attempt's GPUs.

    A GPU is idle in a line in which it ran no kernel; a GPU without a line, or whose use is not
    measured, is not.  ``skew_s`` is by how much the clock of the lines is ahead.
    """
    return [
        GpuMeasurement(
            begin_s=line.at - line.s - skew_s,
            end_s=line.at - skew_s,
            idle_s=line.s * min(1.0, _count_idle(line) / gpus),
            energy_j=_sum_energy(line),
        )
        for line in lines
        if gpus and line.gpus
    ]


def _count_idle(line: UsageLine) -> int:
    return sum(gpu.use is not None and gpu.use.high <= 0 for gpu in line.gpus.values())


def _sum_energy(line: UsageLine) -> float | None:
    joules = [gpu.energy_j for gpu in line.gpus.values() if gpu.energy_j is not None]
    return sum(joules) if joules else None


def usage_rows(
    job: JobTimes,
    now_s: float,
    machines: Mapping[str, MachineGroup],
    prices: PriceList,
    measured: Mapping[int, Sequence[GpuMeasurement]],
) -> Sequence[UsageRow]:
    """Return the rows of all attempts of a job; ``measured`` is by attempt."""
    rows: list[UsageRow] = []
    for times, goodput in zip(job.attempts, attempt_goodputs(job, now_s), strict=True):
        uses = [
            _check_energy(use, times.gpus)
            for use in day_uses(times, goodput, measured.get(times.attempt, ()))
        ]
        for name, group in machines.items():
            rows.extend(_rows_of_type(times, uses, name, group, prices, _gpu_share(machines, name)))
    return rows


def _check_energy(use: DayUse, gpus: int) -> DayUse:
    """Return the use without its energy if GPUs cannot have used so much."""
    most_j = POWER_W_MAX * gpus * (_SAMPLE_S + sum(use.seconds.values()))
    return use if use.energy_j is None or use.energy_j <= most_j else replace(use, energy_j=None)


def _gpu_share(machines: Mapping[str, MachineGroup], name: str) -> float:
    gpus = sum(group.gpus for group in machines.values())
    return machines[name].gpus / gpus if gpus else 0.0


def _rows_of_type(  # noqa: PLR0913, PLR0917 - the values of a row
    times: AttemptTimes,
    uses: Sequence[DayUse],
    name: str,
    group: MachineGroup,
    prices: PriceList,
    share: float,
) -> Iterator[UsageRow]:
    price = prices.of(group.machines)
    for use in uses:
        yield UsageRow(
            attempt=times.attempt,
            machine_type=name,
            day=use.day,
            gpus=group.gpus,
            vcpus=group.vcpus,
            placed_ns=round(times.placed_s * _NS_PER_S),
            end_ns=None if times.ended_s is None else round(times.ended_s * _NS_PER_S),
            seconds=use.seconds,
            energy_j=None if use.energy_j is None or not share else share * use.energy_j,
            hour_price=price.amount if price else None,
            currency=price.currency if price else "",
            price_source=", ".join(price.sources) if price else "",
            price_date=min(price.dates, default="") if price else "",
        )
