"""Both worked examples of the Reduction Server's sizing come out as printed."""

import pytest

from trainshed import catalog
from trainshed.catalog.machines import reducers_needed
from trainshed.catalog.rows import rows

EXAMPLES = {row["id"]: row for row in rows("reduction_server", "example")}


@pytest.mark.parametrize(
    ("example", "machine", "device", "count", "workers"),
    [
        ("v100", "n1-highmem-96", "NVIDIA_TESLA_V100", 8, 5),
        ("a100", "a2-megagpu-16g", "NVIDIA_TESLA_A100", 16, 8),
    ],
)
def test_a_printed_example(example, machine, device, count, workers):
    vertex = catalog.load("2026-08")
    printed = EXAMPLES[example]
    worker_gbps = vertex.egress_gbps(vertex.machines[machine], device, count)
    reducer = vertex.egress_gbps(vertex.machines[printed["reducer"]], None, 0)
    assert worker_gbps == printed["worker_gbps"]
    assert worker_gbps * workers == printed["total_worker_gbps"]
    assert reducer == printed["reducer_gbps"]
    assert reducers_needed(worker_gbps * workers, reducer) == printed["reducers"]


@pytest.mark.parametrize(("gpu", "expected"), [("K80", 16), ("P100", 16)])
def test_older_gpus_do_not_widen_an_n1_machine(gpu, expected):
    vertex = catalog.load("2020-08")
    machine = vertex.machines["n1-standard-8"]
    assert vertex.egress_gbps(machine, f"NVIDIA_TESLA_{gpu}", 1) == expected == machine.egress_gbps
