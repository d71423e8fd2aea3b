"""Divides the machines of an attempt into parts: single GPUs, and the machines of a node without.

A supervisor measures GPUs by UUID.  The machine that a GPU belongs to follows from the replica that
the measurements name, else from the node that has the GPU.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trainshed.planning.usage_days import GpuMeasurement


class GpuSeries(NamedTuple):
    """What was measured of one GPU in an attempt."""

    measurements: Sequence[GpuMeasurement]
    task: str = ""
    """The task name of the replica that has the GPU; empty if unknown."""
    gpu_index: int | None = None
    """The driver's number of the GPU on its node; None if unknown."""


class ReportedGpu(NamedTuple):
    """A GPU as the engine of its node has reported it."""

    node: str
    gpu_index: int
    gpu_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSlot:
    """The machine of one replica, or several that samples do not distinguish."""

    machine_type: str
    engine: str = ""
    node: str = ""
    """Empty if the engine has not reported the node."""
    task: str = ""
    machines: int = 1
    gpus: int = 0
    """Of all ``machines``, as ``vcpus``."""
    vcpus: float = 0.0


class _Pool(NamedTuple):
    """The GPUs of a replica, of a node, or (both empty) of an unknown one."""

    task: str = ""
    node: str = ""


class _Rest(NamedTuple):
    """What is left of a slot without the GPUs that have names."""

    slot: MachineSlot
    share: float
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePart:
    """One GPU, or the machines of one type on a node whose GPUs have no names."""

    machine_type: str
    engine: str
    node: str
    gpu: str = ""
    """The UUID; empty for machines without GPUs, and for GPUs that were not measured."""
    gpu_index: int | None = None
    gpu_type: str = ""
    machines: float
    """The number of machines; one GPU of a machine with eight is 0.125."""
    gpus: int = 0
    vcpus: float = 0.0
    measurements: Sequence[GpuMeasurement] = ()


def divide_machines(
    slots: Sequence[MachineSlot],
    measured: Mapping[str, GpuSeries],
    reported: Mapping[str, ReportedGpu],
) -> Sequence[MachinePart]:
    """Return the parts of the machines of an attempt; their sums are those of ``slots``.

    ``measured`` and ``reported`` are by UUID.  Programs of a job may change its measurements: of
    more GPUs than a machine has, those that were measured for the longest time count.
    """
    nodes = {slot.node for slot in slots}
    reported = {uuid: reported[uuid] for uuid in measured.keys() & reported.keys()}
    reported = {uuid: gpu for uuid, gpu in reported.items() if gpu.node in nodes}
    pools = _pool_gpus(slots, measured, reported)
    parts: list[MachinePart] = []
    unnamed: dict[tuple[str, str, str], list[_Rest]] = defaultdict(list)
    for slot in slots:
        own = _take_gpus(slot, pools)
        named = [_part_of_gpu(slot, uuid, measured[uuid], reported.get(uuid)) for uuid in own]
        parts += sorted(named, key=lambda part: (part.gpu_index is None, part.gpu_index, part.gpu))
        if len(own) < slot.gpus or not slot.gpus:
            rest = slot.gpus - len(own)
            share = rest / slot.gpus if slot.gpus else 1.0
            unnamed[slot.machine_type, slot.engine, slot.node].append(_Rest(slot, share, rest))
    return [*parts, *map(_join, unnamed.values())]


def _pool_gpus(
    slots: Sequence[MachineSlot],
    measured: Mapping[str, GpuSeries],
    reported: Mapping[str, ReportedGpu],
) -> Mapping[_Pool, list[str]]:
    """Return the GPUs by replica, else by node; those with the longest time are last."""
    tasks = {slot.task: slot.node for slot in slots if slot.task}
    pools: Mapping[_Pool, list[str]] = defaultdict(list)
    for uuid in sorted(measured, key=lambda uuid: (*_amount(measured[uuid]), uuid)):
        task, node = measured[uuid].task, reported[uuid].node if uuid in reported else ""
        if task in tasks and node in {tasks[task], ""}:
            pools[_Pool(task=task)].append(uuid)
        else:
            pools[_Pool(node=node)].append(uuid)
    return pools


def _take_gpus(slot: MachineSlot, pools: Mapping[_Pool, list[str]]) -> Sequence[str]:
    """Take a slot's GPUs out of the pools."""
    taken: list[str] = []
    for pool in (_Pool(task=slot.task), _Pool(node=slot.node), _Pool()):
        gpus = pools.get(pool, [])
        while gpus and len(taken) < slot.gpus:
            taken.append(gpus.pop())
    return taken


def _amount(series: GpuSeries) -> tuple[float, float]:
    """Return for how many seconds a GPU was measured, and its joules."""
    parts = series.measurements
    return sum(part.end_s - part.begin_s for part in parts), sum(
        part.energy_j or 0.0 for part in parts
    )


def _part_of_gpu(
    slot: MachineSlot, uuid: str, series: GpuSeries, reported: ReportedGpu | None
) -> MachinePart:
    return MachinePart(
        machine_type=slot.machine_type,
        engine=slot.engine,
        node=slot.node,
        gpu=uuid,
        gpu_index=reported.gpu_index if reported else series.gpu_index,
        gpu_type=reported.gpu_type if reported else "",
        machines=slot.machines / slot.gpus,
        gpus=1,
        vcpus=slot.vcpus / slot.gpus,
        measurements=series.measurements,
    )


def _join(rests: Sequence[_Rest]) -> MachinePart:
    slot = rests[0].slot
    return MachinePart(
        machine_type=slot.machine_type,
        engine=slot.engine,
        node=slot.node,
        machines=sum(rest.share * rest.slot.machines for rest in rests),
        gpus=sum(rest.gpus for rest in rests),
        vcpus=sum(rest.share * rest.slot.vcpus for rest in rests),
    )
