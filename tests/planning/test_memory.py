"""What a training needs of a machine's memory decides if it is planned there."""

import pytest

from trainshed.planning.memory import memory_use
from trainshed.planning.scaling.calibration import Calibration, Run, RunKind
from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.training import StepBatch, Strategy, Training

GIB = 2.0**30
V100 = HostKind(accelerator="V100", per_host=4, inside_bytes=1e9)
CPUS = HostKind(accelerator="CPU", per_host=4)


def calibration(host, *, peak=10.0, state=4.0, **training):
    run = Run(kind=RunKind.COMPUTE, step_s=0.1, memory_bytes=peak * GIB, micro_batches=2)
    sizes = {"parameters": 1e9, "gradient_bytes": GIB, "state_bytes": state * GIB}
    return Calibration(
        training=Training(batch_per_accelerator=16, micro_batches=2, **{**sizes, **training}),
        host=host,
        runs=(run,) if peak else (),
    )


@pytest.mark.parametrize(
    ("measured", "cluster", "batch", "needed"),
    [
        (calibration(V100), (1, 1), StepBatch(), 10.0),
        (calibration(V100), (8, 2), StepBatch(), 11.0),  # with the buckets of an all-reduce
        (calibration(V100), (1, 1), StepBatch(samples=32, micro_batches=2), 16.0),
        (calibration(V100), (1, 1), StepBatch(samples=32, micro_batches=4), 10.0),
        (calibration(V100), (1, 1), StepBatch(samples=4, micro_batches=1), 7.0),
        (calibration(V100, strategy=Strategy.FSDP), (8, 2), StepBatch(), 6.5),
        (calibration(CPUS), (8, 2), StepBatch(samples=4, micro_batches=1), 4 * 11.0),
        (calibration(V100, peak=0.0), (8, 2), StepBatch(), 4.0),
        (calibration(V100, peak=0.0, state=0.0), (1, 1), StepBatch(), 8e9 / GIB),
        (
            calibration(V100, peak=0.0, state=0.0, precision="bf16"),
            (1, 1),
            StepBatch(),
            4e9 / GIB,
        ),
    ],
)
def test_memory_is_the_state_and_a_part_that_grows_with_the_micro_batch(
    measured, cluster, batch, needed
):
    accelerators, hosts = cluster
    planned = Cluster(host=measured.host, accelerators=accelerators, hosts=hosts)
    use = memory_use(measured, planned, batch, 16 * GIB)
    assert use.needed == pytest.approx(needed * GIB)
    assert use.is_least == (not measured.runs)
    assert bool(use.refuse(measured.training.strategy)) == (needed > 16)
    assert use.is_tight == (14.4 < needed <= 16)


def test_what_nobody_measured_is_not_guessed():
    one = Cluster(host=V100, accelerators=1, hosts=1)
    nothing = calibration(V100, peak=0.0, state=0.0, parameters=0.0)
    assert memory_use(nothing, one, StepBatch(), GIB) is None
    assert memory_use(calibration(V100, peak=0.0), one, StepBatch(), 0.0) is None
    unknown = memory_use(calibration(V100), one, StepBatch(), 0.0)
    assert (unknown.words, unknown.is_tight) == ("10 GiB", False)
    assert unknown.refuse(Strategy.ALLREDUCE) is None


def test_a_small_model_needs_more_than_nothing():
    small = calibration(V100, peak=0.0, state=0.0, parameters=4e6)
    use = memory_use(small, Cluster(host=V100, accelerators=1, hosts=1), StepBatch(), 16 * GIB)
    assert use.words == "over 0.03 of 16 GiB"


def test_the_refusal_names_what_can_be_changed():
    def accepted(strategy):
        measured = calibration(V100, peak=0.0, state=400.0, strategy=strategy)
        cluster = Cluster(host=V100, accelerators=8, hosts=2)
        return memory_use(measured, cluster, StepBatch(), 16 * GIB).refuse(strategy).accepted

    assert "--strategy fsdp if" in accepted(Strategy.ALLREDUCE)
    assert accepted(Strategy.FSDP).startswith("more accelerators, ")
    assert "--strategy" not in accepted(Strategy.FSDP)
