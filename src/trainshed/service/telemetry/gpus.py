"""Samples of GPUs: those of each node, and readings of this server's machine.

A figure that is not measured has no sample, and is never 0.  Only ``gpu_info`` has the UUID; the
other families join it by node and gpu.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from trainshed.engines.capabilities import GpuNow
from trainshed.launch.names import task_name
from trainshed.model.gpus import GpuSample, GpuState
from trainshed.model.resources import Node
from trainshed.service.telemetry import families
from trainshed.service.telemetry.counters import Counters
from trainshed.service.telemetry.family import Family, FamilySamples, Samples
from trainshed.service.telemetry.store_counts import DIALECTS
from trainshed.store.records.jobs import Holding


def _is_throttled(reading: GpuSample) -> float | None:
    return None if reading.throttled is None else float(bool(reading.throttled))


#: The figures of the newest sample; None: not measured.
_FIGURES: Final[Mapping[Family, Callable[[GpuSample], float | None]]] = {
    families.GPU_UTILIZATION: lambda reading: reading.use,
    families.GPU_MEMORY_USED: lambda reading: reading.used_bytes,
    families.GPU_POWER: lambda reading: reading.power_w,
    families.GPU_TEMPERATURE: lambda reading: reading.temperature_c,
    families.GPU_THROTTLED: _is_throttled,
    families.GPU_ENERGY: lambda reading: reading.energy_j,
    families.GPU_ECC: lambda reading: reading.ecc_errors,
}

#: A GPU of this machine with the names of its node and itself; ``0.1``: an instance of GPU 0.
LocalGpu = tuple[tuple[str, str], GpuNow]


def list_local(nodes: Sequence[Node], now: Mapping[str, GpuNow]) -> list[LocalGpu]:
    """List the GPUs of this machine; ``now`` has their readings by UUID."""
    return [
        ((node.name, number), now[uuid])
        for node in nodes
        for number, uuid in _number(node)
        if uuid in now
    ]


def read_node_gpus(nodes: Sequence[Node], now: Mapping[str, GpuNow]) -> FamilySamples:
    """Count the GPUs of all nodes by type and state."""
    counts: Counter[tuple[str, ...]] = Counter()
    for node in nodes:
        for gpu in node.devices:
            state = now[gpu.uuid].gpu.state if gpu.uuid in now else gpu.state
            counts[node.name, gpu.type, state.value] += 1
    return families.NODE_GPUS, counts


def read_local(
    gpus: Sequence[LocalGpu], holdings: Mapping[int, Holding], choose: Callable[[str], str]
) -> Iterator[FamilySamples]:
    """Return the families of this machine's GPUs; ``choose`` returns the label of a project."""
    yield (
        families.GPU_INFO,
        {(*name, now.gpu.uuid, now.gpu.name, now.driver): 1.0 for name, now in gpus},
    )
    yield families.GPU_JOB_INFO, dict(_list_holders(gpus, holdings, choose))
    yield families.GPU_MEMORY_TOTAL, _measured((n, now.gpu.memory_bytes) for n, now in gpus)
    yield families.GPU_IDLE, _measured((name, now.idle_s) for name, now in gpus)
    for family, figure in _FIGURES.items():
        yield (
            family,
            _measured((name, figure(now.reading) if now.reading else None) for name, now in gpus),
        )
    yield (
        families.GPU_XID,
        {(*name, str(xid)): float(n) for name, now in gpus for xid, n in now.xids.items()},
    )


def count_held(
    gpus: Sequence[LocalGpu], holdings: Mapping[int, Holding], counters: Counters, seconds: float
) -> None:
    """Count ``seconds`` for each GPU that a job holds."""
    for (node, _), now in gpus:
        held = holdings.get(now.attempt.uid) if now.attempt else None
        if held is not None:
            is_busy = bool(now.reading and now.reading.use)
            counters.held(node, held.project, seconds, is_busy=is_busy)


def _measured(figures: Iterable[tuple[tuple[str, str], float | None]]) -> Samples:
    return {name: float(value) for name, value in figures if value is not None}


def _number(node: Node) -> Iterator[tuple[str, str]]:
    """Yield number and UUID of each GPU of a node."""
    instances: Counter[int] = Counter()
    for gpu in node.devices:
        if gpu.uuid.startswith("MIG-"):
            yield f"{gpu.index}.{instances[gpu.index]}", gpu.uuid
            instances[gpu.index] += 1
        else:
            yield str(gpu.index), gpu.uuid


def _list_holders(
    gpus: Sequence[LocalGpu], holdings: Mapping[int, Holding], choose: Callable[[str], str]
) -> Iterator[tuple[tuple[str, ...], float]]:
    for name, now in gpus:
        held = holdings.get(now.attempt.uid) if now.attempt else None
        if held is not None and now.gpu.state is GpuState.HELD:
            job = held.name.rpartition("/")[2]
            labels = (choose(held.project), job, _task(held, name[0]), str(held.attempt))
            yield (*name, *labels), 1.0


def _task(held: Holding, node: str) -> str:
    """Return the task that has a GPU of the node; empty if several of the job may have it."""
    on_node = [seat for seat in held.seats if node.rpartition("/")[2] == seat.node]
    if len(on_node) != 1:
        return ""
    return task_name(DIALECTS[held.kind.value], on_node[0].role, on_node[0].index)
