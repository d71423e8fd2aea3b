"""Each GPU of an attempt goes to one machine, and the parts of machines add up to them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.planning.machine_parts import GpuSeries, MachineSlot, ReportedGpu, divide_machines
from trainshed.planning.usage_days import GpuMeasurement

BIG = {"machine_type": "big", "gpus": 2, "vcpus": 8.0}


def series(seconds=60.0, joules=None, task="", index=None):
    part = GpuMeasurement(begin_s=0.0, end_s=seconds, energy_j=joules)
    return GpuSeries([part], task, index)


def names(parts):
    return [(part.node, part.gpu, part.gpu_index, part.gpus) for part in parts]


def test_a_gpu_belongs_to_the_replica_that_its_measurements_name():
    slots = [MachineSlot(**BIG, node="n1", task="a"), MachineSlot(**BIG, node="n2", task="b")]
    measured = {"GPU-4": series(task="a", index=4), "GPU-3": series(task="a", index=3),
                "GPU-1": series(task="b")}  # fmt: skip
    parts = divide_machines(slots, measured, {})
    assert names(parts) == [("n1", "GPU-3", 3, 1), ("n1", "GPU-4", 4, 1), ("n2", "GPU-1", None, 1),
                            ("n2", "", None, 1)]  # fmt: skip
    assert {part.vcpus for part in parts} == {4.0}
    assert {part.machines for part in parts} == {0.5}


def test_a_gpu_belongs_to_the_node_that_has_it():
    slots = [MachineSlot(**BIG, node="n1", task="a"), MachineSlot(**BIG, node="n2", task="b")]
    reported = {
        "GPU-1": ReportedGpu("n2", 7, "NVIDIA_H100"),
        "GPU-2": ReportedGpu("far", 0, "x"),
    }
    parts = divide_machines(slots, {"GPU-1": series(task="a"), "GPU-2": series()}, reported)
    assert names(parts)[0] == ("n1", "GPU-2", None, 1), (
        "another node's GPU is named without its node"
    )
    assert names(parts)[1] == ("n2", "GPU-1", 7, 1)
    assert parts[1].gpu_type == "NVIDIA_H100"


def test_of_more_gpus_than_a_machine_has_the_longest_measured_count():
    slot = MachineSlot(machine_type="one", gpus=1, node="n1")
    measured = {"invented": series(5.0), "real": series(60.0), "zz": series(5.0)}
    assert names(divide_machines([slot], measured, {})) == [("n1", "real", None, 1)]


def test_machines_without_gpus_are_one_part_of_their_node():
    cpu = {"machine_type": "n1", "vcpus": 4.0}
    slots = [MachineSlot(**cpu, node=node, task=task) for node, task in (("a", "1"), ("a", "2"))]
    [part] = divide_machines(slots, {"GPU-1": series()}, {})
    assert (part.node, part.gpu, part.gpus, part.vcpus, part.machines) == ("a", "", 0, 8.0, 2)


@given(
    slots=st.lists(
        st.builds(
            MachineSlot,
            machine_type=st.sampled_from("xy"),
            engine=st.sampled_from(["", "slurm"]),
            node=st.sampled_from(["", "n1", "n2"]),
            task=st.sampled_from(["", "a", "b", "c"]),
            gpus=st.integers(0, 4),
            vcpus=st.floats(0, 96),
        ),
        max_size=5,
    ),
    measured=st.dictionaries(
        st.sampled_from([f"GPU-{number}" for number in range(9)]),
        st.builds(series, st.floats(1, 100), task=st.sampled_from(["", "a", "b", "zzz"])),
    ),
    reported=st.dictionaries(
        st.sampled_from([f"GPU-{number}" for number in range(9)]),
        st.builds(ReportedGpu, st.sampled_from(["n1", "n3"]), st.integers(0, 7), st.just("t")),
    ),
)
def test_parts_add_up_to_their_machines(slots, measured, reported):
    parts = divide_machines(slots, measured, reported)
    for name in {slot.machine_type for slot in slots}:
        own = [part for part in parts if part.machine_type == name]
        machines = [slot for slot in slots if slot.machine_type == name]
        assert sum(part.gpus for part in own) == sum(slot.gpus for slot in machines)
        assert sum(part.machines for part in own) == pytest.approx(len(machines))
        assert sum(part.vcpus for part in own) == pytest.approx(sum(s.vcpus for s in machines))
    gpus = [part.gpu for part in parts if part.gpu]
    assert len(gpus) == len(set(gpus))
    assert set(gpus) <= set(measured)
    for part in parts:
        where = reported.get(part.gpu)
        assert (
            where is None
            or where.node == part.node
            or where.node not in {slot.node for slot in slots}
        )
