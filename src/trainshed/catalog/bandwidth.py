"""Network bandwidth of machines, and how many reducers match a job's workers (R17)."""

import math
from functools import cache

from trainshed.catalog.machines import MachineType
from trainshed.catalog.rows import Row, rows

#: Decimals of a number of reducers that count: three links of 0.1 make 0.30000000000000004.
_DECIMALS = 9


def egress_gbps(machine: MachineType, gpu: str | None = None, gpu_count: int = 0) -> float | None:
    """The most that one machine can send, Gbit/s; ``gpu`` is a catalog name such as ``V100``.

    N1 machines gain or lose bandwidth with their GPUs (machine_types.toml,
    gpu_vm_bandwidth_rule); every other family carries its own figure.  None when unknown.
    """
    if machine.family != "n1" or not gpu or machine.egress_gbps is None:
        return machine.egress_gbps
    ceiling = _ceilings().get(gpu, machine.egress_gbps)
    for row in _configs(gpu, gpu_count):
        if _matches(row, machine):
            return min(float(row["gbps"]), ceiling)
    return min(machine.egress_gbps, ceiling)


def reducers_needed(worker_gbps: float, reducer_gbps: float) -> int:
    """The fewest reducers whose total bandwidth matches the workers' (seed001)."""
    return math.ceil(round(worker_gbps / reducer_gbps, _DECIMALS)) or 1


@cache
def _ceilings() -> dict[str, float]:
    return {row["gpu"]: row["max_gbps"] for row in rows("machine_types", "gpu_vm_bandwidth_max")}


def _configs(gpu: str, count: int) -> list[Row]:
    found = rows("machine_types", "gpu_vm_bandwidth_config")
    return [row for row in found if row["gpu"] == gpu and row["count"] == count]


def _matches(row: Row, machine: MachineType) -> bool:
    """``n1-*-96`` names machines by size; the other rows say how many vCPU the rate needs."""
    least = row.get("vcpus_at_least_for_this_rate")
    if least is None:
        return machine.name.endswith("-96")
    return machine.vcpus is not None and machine.vcpus >= least
