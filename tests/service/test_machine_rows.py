"""What is added up by GPU and node is what is added up by machine type, to the second."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.job import Accelerator, JobSpec, ReplicaGroup
from trainshed.model.resources import Demand, GroupDemand, JobDemand
from trainshed.model.roles import Dialect, Role
from trainshed.model.usage import GpuUsage, Spread, UsageLine
from trainshed.planning.goodput import AttemptTimes, JobTimes
from trainshed.planning.machine_parts import divide_machines
from trainshed.planning.prices import OwnPrices, PriceList
from trainshed.planning.usage_days import DAY_S
from trainshed.service.costs.gpu_series import measure_gpus
from trainshed.service.costs.machine_groups import group_machines
from trainshed.service.costs.machine_rows import list_slots
from trainshed.service.costs.usage_rows import used_machines
from trainshed.store.records.usage import UsingReplica

T4 = "NVIDIA_TESLA_T4"
SPEC = JobSpec(dialect=Dialect.AIPLATFORM_V1, groups=(
    ReplicaGroup(role=Role.PRIMARY, machine_type="big", accelerator=Accelerator(type=T4, count=2)),
    ReplicaGroup(role=Role.WORKER, machine_type="small", count=2,
                 accelerator=Accelerator(type=T4, count=1)),
    ReplicaGroup(role=Role.EVALUATOR, machine_type="cpu"),
))  # fmt: skip
DEMAND = JobDemand(region="us-central1", groups=(
    GroupDemand(role=Role.PRIMARY, count=1, each=Demand(vcpus=8, gpu_type=T4, gpu_count=2)),
    GroupDemand(role=Role.WORKER, count=2, each=Demand(vcpus=4, gpu_type=T4, gpu_count=1)),
    GroupDemand(role=Role.EVALUATOR, count=1, each=Demand(vcpus=2)),
))  # fmt: skip
REPLICAS = [
    UsingReplica(1, "primary", "primary-0", "slurm", "n1"),
    UsingReplica(1, "worker", "worker-0", "slurm", "n2"),
    UsingReplica(1, "worker", "worker-1", "slurm", "n3"),
    UsingReplica(1, "evaluator", "evaluator-0", "slurm", "n3"),
]
PRICES = PriceList(own=OwnPrices(source="own", currency="EUR", date="2026-11-01",
                                 per_hour={"big": 7.2, "small": 3.6}),
                   region="us-central1")  # fmt: skip
BEGIN = 20_000 * DAY_S - 3600.0


def used(lines, end_s=BEGIN + 9000.0, **fields):
    times = AttemptTimes(attempt=1, placed_s=BEGIN, ended_s=end_s, running_s=BEGIN + 60,
                         gpus=4, **fields)  # fmt: skip
    job = JobTimes(accepted_s=BEGIN, ended_s=end_s, attempts=(times,))
    parts = divide_machines(list_slots(SPEC, DEMAND, REPLICAS), measure_gpus(lines), {})
    return used_machines(job, end_s, group_machines(SPEC, DEMAND), PRICES, {1: parts})


def line(at_s, idle, joules=None):
    spreads = [Spread(0, 0, 0) if one else Spread(0, 0.5, 1) for one in idle]
    gpus = {f"GPU-{n}": GpuUsage(use=use, energy_j=joules) for n, use in enumerate(spreads)}
    return UsageLine(BEGIN + at_s, 60.0, {}, gpus)


def test_the_idle_gpu_is_the_one_that_ran_nothing():
    lines = [line(at_s, (True, False, False, False), 60.0) for at_s in range(600, 3600, 60)]
    rows = [row for row in used(lines).machines if row.gpu]
    idle = {
        row.gpu: sum(r.seconds.get("idle", 0) for r in rows if r.gpu == row.gpu) for row in rows
    }
    assert idle == {"GPU-0": 3000.0, "GPU-1": 0, "GPU-2": 0, "GPU-3": 0}
    assert sum(row.energy_j or 0.0 for row in rows) == pytest.approx(4 * 50 * 60.0)
    assert {row.currency for row in rows} == {"EUR"}


@given(
    lines=st.lists(
        st.tuples(
            st.integers(-60, 9500),
            st.tuples(*[st.booleans()] * 4),
            st.none() | st.floats(0, 20_000),
        ),
        max_size=30,
    ),
    steps=st.none() | st.tuples(st.floats(60, 4000), st.floats(4000, 9000)),
    hang=st.tuples(st.floats(0, 9000), st.floats(0, 9000)),
    saving=st.none() | st.floats(0, 900),
)
def test_sums_by_gpu_are_those_of_machine_types(lines, steps, hang, saving):
    first_s, last_s = steps or (None, None)
    fields = {"first_step_s": first_s and BEGIN + first_s, "last_step_s": last_s and BEGIN + last_s,
              "first_step": 1 if steps else None, "last_step": 9 if steps else None,
              "hangs": ((BEGIN + hang[0], BEGIN + hang[0] + hang[1]),),
              "saving_s": saving}  # fmt: skip
    rows, machines = used([line(*values) for values in sorted(lines)], **fields)
    assert len({(row.day, row.machine_type) for row in rows}) == len(rows)
    for row in rows:
        own = [
            one for one in machines if (one.day, one.machine_type) == (row.day, row.machine_type)
        ]
        assert sum(one.gpus for one in own) == row.gpus
        assert sum(one.vcpus for one in own) == pytest.approx(row.vcpus)
        for use in {use for one in (row, *own) for use in one.seconds}:
            units = [(one.gpus or one.vcpus, one.seconds.get(use, 0.0)) for one in own]
            of_type = (row.gpus or row.vcpus) * row.seconds.get(use, 0.0)
            assert sum(count * used_s for count, used_s in units) == pytest.approx(of_type)
        joules = [one.energy_j for one in own if one.energy_j is not None]
        assert (sum(joules) if joules else None) == pytest.approx(row.energy_j)
        cost = sum((one.hour_price or 0.0) * sum(one.seconds.values()) for one in own)
        assert cost == pytest.approx((row.hour_price or 0.0) * sum(row.seconds.values()))
    held = {round(sum(one.seconds.values()), 3) for one in machines if one.day == 19_999}
    assert held == {3600.0}, "each GPU and machine is held for the same time"


def test_lines_of_one_day_are_joined():
    lines = [line(at_s, (at_s > 1200,) * 4, 1.0) for at_s in range(60, 7201, 60)]
    gpu = measure_gpus(lines)["GPU-0"]
    assert len(gpu.measurements) <= 5
    assert sum(part.energy_j for part in gpu.measurements) == 120.0
    assert sum(part.idle_s for part in gpu.measurements) == pytest.approx(6000.0)
    gap = measure_gpus([line(60, (True,) * 4), line(600, (True,) * 4)])["GPU-0"]
    assert [part.idle_s for part in gap.measurements] == [60.0, 60.0]
