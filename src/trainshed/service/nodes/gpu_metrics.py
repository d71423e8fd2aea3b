"""Prometheus families of GPUs: those of each node, and readings of this server's machine.

A figure that is not measured has no sample, and is never 0.  Only ``gpu_info`` has the UUID; the
other families join it by node and gpu.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from trainshed.engines.capabilities import GpuNow
from trainshed.model.gpus import GpuSample
from trainshed.model.resources import Node

_FIGURES: Final[Mapping[str, tuple[str, Callable[[GpuSample], float | None]]]] = {
    "trainshed_gpu_utilization_ratio": (
        "Share of the last sampling period in which at least one kernel ran",
        lambda reading: reading.use,
    ),
    "trainshed_gpu_memory_used_bytes": ("Memory in use", lambda reading: reading.used_bytes),
    "trainshed_gpu_power_watts": ("Power drawn", lambda reading: reading.power_w),
    "trainshed_gpu_temperature_celsius": ("Temperature", lambda reading: reading.temperature_c),
    "trainshed_gpu_throttled": (
        "1 while the clocks of the GPU are throttled",
        lambda reading: None if reading.throttled is None else bool(reading.throttled),
    ),
}
_GPU_LABELS: Final = ("node", "gpu")


def families(nodes: Sequence[Node], now: Mapping[str, GpuNow]) -> Iterator[Metric]:
    """Return all families; ``now`` has the readings of this machine's GPUs by UUID."""
    yield _node_gpus(nodes, now)
    local_gpus = list(_list_local(nodes, now))
    yield _info(local_gpus)
    total = GaugeMetricFamily(
        "trainshed_gpu_memory_total_bytes", "Total memory", labels=_GPU_LABELS
    )
    for labels, status in local_gpus:
        if status.gpu.memory_bytes is not None:
            total.add_metric(labels, status.gpu.memory_bytes)
    yield total
    for name, (text, figure) in _FIGURES.items():
        family = GaugeMetricFamily(name, text, labels=_GPU_LABELS)
        for labels, status in local_gpus:
            value = None if status.reading is None else figure(status.reading)
            if value is not None:
                family.add_metric(labels, value)
        yield family
    yield _ecc_errors(local_gpus)
    yield _xids(local_gpus)


def _list_local(
    nodes: Sequence[Node], now: Mapping[str, GpuNow]
) -> Iterator[tuple[tuple[str, str], GpuNow]]:
    """List the GPUs of this machine with node and number; ``0.1`` is an instance of GPU 0."""
    for node in nodes:
        instances: Counter[int] = Counter()
        for gpu in node.devices:
            number = str(gpu.index)
            if gpu.uuid.startswith("MIG-"):
                number = f"{gpu.index}.{instances[gpu.index]}"
                instances[gpu.index] += 1
            if gpu.uuid in now:
                yield (node.name, number), now[gpu.uuid]


def _node_gpus(nodes: Sequence[Node], now: Mapping[str, GpuNow]) -> Metric:
    family = GaugeMetricFamily(
        "trainshed_node_gpus", "GPUs by type and state", labels=["node", "type", "state"]
    )
    counts: Counter[tuple[str, str, str]] = Counter()
    for node in nodes:
        for gpu in node.devices:
            state = now[gpu.uuid].gpu.state if gpu.uuid in now else gpu.state
            counts[node.name, gpu.type, state.value.lower()] += 1
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family


def _info(local_gpus: Sequence[tuple[tuple[str, str], GpuNow]]) -> Metric:
    labels = [*_GPU_LABELS, "uuid", "model", "driver"]
    family = GaugeMetricFamily(
        "trainshed_gpu_info", "1 for each GPU of the server's machine", labels=labels
    )
    for gpu_labels, status in local_gpus:
        family.add_metric([*gpu_labels, status.gpu.uuid, status.gpu.name, status.driver], 1)
    return family


def _ecc_errors(local_gpus: Sequence[tuple[tuple[str, str], GpuNow]]) -> Metric:
    text = "Uncorrectable errors of its memory since the driver was loaded"
    family = CounterMetricFamily("trainshed_gpu_ecc_errors", text, labels=_GPU_LABELS)
    for gpu_labels, status in local_gpus:
        if status.reading is not None and status.reading.ecc_errors is not None:
            family.add_metric(gpu_labels, status.reading.ecc_errors)
    return family


def _xids(local_gpus: Sequence[tuple[tuple[str, str], GpuNow]]) -> Metric:
    family = CounterMetricFamily(
        "trainshed_gpu_xid_errors", "Xids since the server started", labels=[*_GPU_LABELS, "xid"]
    )
    for gpu_labels, status in local_gpus:
        for xid, count in status.xids.items():
            family.add_metric([*gpu_labels, str(xid)], count)
    return family
