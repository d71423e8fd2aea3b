"""The GPUs of nodes: those in the store, with readings of the answering server's machine.

Readings are not stored: those of other servers' nodes are absent.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from trainshed.model.gpus import GpuNow, GpuSample, NodeGpu
from trainshed.store.records.jobs import Holding
from trainshed.wire.times import rfc3339

Json = dict[str, Any]

#: Reads the GPUs of an engine's own machine.
GpusNow = Callable[[], Sequence[GpuNow]]
_DIGITS: Final = 4


def shown(
    gpus: Iterable[NodeGpu], now: Mapping[str, GpuNow], jobs: Mapping[int, str]
) -> list[Json]:
    """As the API shows them; ``jobs`` are the names of those that the caller may see, by uid."""
    return [_render_status(now[gpu.uuid], jobs) if gpu.uuid in now else _gpu(gpu) for gpu in gpus]


def by_uuid(gpus_now: GpusNow | None) -> dict[str, GpuNow]:
    """Return the readings of the server's machine by UUID; none if the engine has none."""
    return {} if gpus_now is None else {status.gpu.uuid: status for status in gpus_now()}


def names_of(holding: Iterable[Holding], sees: Callable[[str], bool]) -> dict[int, str]:
    """Return the names of jobs with places by uid, of projects that the caller may see."""
    return {int(held.uid): held.name for held in holding if sees(held.project)}


def _render_status(now: GpuNow, jobs: Mapping[int, str]) -> Json:
    attempt = now.attempt
    job = {} if attempt is None else {"job": jobs.get(attempt.uid)}
    reading = {} if now.reading is None else {"reading": _reading(now.reading)}
    return {**_gpu(now.gpu), **job, **reading}


def _gpu(gpu: NodeGpu) -> Json:
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "type": gpu.type,
        "memoryBytes": gpu.memory_bytes,
        "pciBusId": gpu.pci_bus_id or None,
        "state": gpu.state.value,
        "who": gpu.who or None,
        "problem": gpu.problem or None,
    }


def _reading(reading: GpuSample) -> Json:
    return {
        "at": rfc3339(reading.at.replace(microsecond=reading.at.microsecond // 1000 * 1000)),
        "usedBytes": reading.used_bytes,
        "use": _round(reading.use),
        "useMinute": _round(reading.use_minute),
        "powerWatts": _round(reading.power_w),
        "temperatureCelsius": reading.temperature_c,
        "eccErrors": reading.ecc_errors,
        "throttled": None if reading.throttled is None else list(reading.throttled),
    }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
