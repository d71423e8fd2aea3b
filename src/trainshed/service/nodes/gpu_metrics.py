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
        "Share of the last instants in which any kernel ran: not how busy it was",
        lambda reading: reading.use,
    ),
    "trainshed_gpu_memory_used_bytes": ("Memory in use", lambda reading: reading.used_bytes),
    "trainshed_gpu_power_watts": ("Power drawn", lambda reading: reading.power_w),
    "trainshed_gpu_temperature_celsius": ("Temperature", lambda reading: reading.temperature_c),
    "trainshed_gpu_throttled": (
        "1 while its clocks are lower than they could be",
        lambda reading: None if reading.throttled is None else bool(reading.throttled),
    ),
}
_OF_ONE: Final = ("node", "gpu")


def families(nodes: Sequence[Node], now: Mapping[str, GpuNow]) -> Iterator[Metric]:
    """Return all families; ``now`` has the readings of this machine's GPUs by UUID."""
    yield _node_gpus(nodes, now)
    here = list(_list_local(nodes, now))
    yield _info(here)
    total = GaugeMetricFamily("trainshed_gpu_memory_total_bytes", "All memory", labels=_OF_ONE)
    for labels, status in here:
        if status.gpu.memory_bytes is not None:
            total.add_metric(labels, status.gpu.memory_bytes)
    yield total
    for name, (text, figure) in _FIGURES.items():
        family = GaugeMetricFamily(name, text, labels=_OF_ONE)
        for labels, status in here:
            value = None if status.reading is None else figure(status.reading)
            if value is not None:
                family.add_metric(labels, value)
        yield family
    yield _ecc_errors(here)
    yield _xids(here)


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
        "trainshed_node_gpus", "GPUs by what is known of them", labels=["node", "type", "state"]
    )
    counts: Counter[tuple[str, str, str]] = Counter()
    for node in nodes:
        for gpu in node.devices:
            state = now[gpu.uuid].gpu.state if gpu.uuid in now else gpu.state
            counts[node.name, gpu.type, state.value.lower()] += 1
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family


def _info(here: Sequence[tuple[tuple[str, str], GpuNow]]) -> Metric:
    labels = [*_OF_ONE, "uuid", "model", "driver"]
    family = GaugeMetricFamily("trainshed_gpu_info", "1 for each GPU here", labels=labels)
    for of_one, status in here:
        family.add_metric([*of_one, status.gpu.uuid, status.gpu.name, status.driver], 1)
    return family


def _ecc_errors(here: Sequence[tuple[tuple[str, str], GpuNow]]) -> Metric:
    text = "Uncorrectable errors of its memory since the driver was loaded"
    family = CounterMetricFamily("trainshed_gpu_ecc_errors", text, labels=_OF_ONE)
    for of_one, status in here:
        if status.reading is not None and status.reading.ecc_errors is not None:
            family.add_metric(of_one, status.reading.ecc_errors)
    return family


def _xids(here: Sequence[tuple[tuple[str, str], GpuNow]]) -> Metric:
    family = CounterMetricFamily(
        "trainshed_gpu_xid_errors", "Xids since the server started", labels=[*_OF_ONE, "xid"]
    )
    for of_one, status in here:
        for xid, count in status.xids.items():
            family.add_metric([*of_one, str(xid)], count)
    return family
