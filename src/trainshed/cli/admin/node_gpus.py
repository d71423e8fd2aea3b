"""The GPUs of nodes as a table: nvidia-smi's figures, and the jobs that hold them."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from trainshed.cli.jobs.job_names import id_of_row
from trainshed.cli.terminal import shorten, table
from trainshed.client.faults import Json

_HEADERS: Final = (
    "NODE", "GPU", "TYPE", "STATE", "USER", "JOB NAME", "HELD BY", "MEMORY MIB", "USE",
    "USE 1 MIN", "IDLE", "POWER", "TEMP", "ECC", "THROTTLED",
)  # fmt: skip
_SHORT_HEADERS: Final = ("NODE", "GPU", "TYPE", "STATE", "HELD BY", "GB", "USE")
_NODE_WIDTH: Final = 14
_TYPE_WIDTH: Final = 14
_HELD_WIDTH: Final = 18
#: Prefixes of type names that the table leaves out.
_MAKERS: Final = ("NVIDIA_TESLA_", "NVIDIA_GEFORCE_", "NVIDIA_")
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
_UNMEASURED: Final = "-"
#: The units of a time, with their seconds.
_UNITS: Final = (("h", 3600), ("min", 60), ("s", 1))


def gpu_table(nodes: Sequence[Json]) -> str:
    """Return the table of GPUs, then a line for each GPU with a problem; empty without GPUs."""
    gpus = [(node["name"], gpu) for node in nodes for gpu in node.get("devices") or ()]
    if not gpus:
        return ""
    rows = (_row(name, gpu) for name, gpu in gpus)
    return "\n".join([table(_HEADERS, rows), *_problems(gpus)])


def short_gpu_table(nodes: Sequence[Json]) -> str:
    """Return ``gpu_table`` in 80 columns: without power, temperature, errors and clocks."""
    gpus = [(node["name"], gpu) for node in nodes for gpu in node.get("devices") or ()]
    if not gpus:
        return ""
    rows = (_short_row(name, gpu) for name, gpu in gpus)
    return "\n".join([table(_SHORT_HEADERS, rows), *_problems(gpus)])


def short_type(kind: str) -> str:
    """Return a type without its maker: ``T4`` for ``NVIDIA_TESLA_T4``."""
    return next((kind.removeprefix(m) for m in _MAKERS if kind.startswith(m)), kind)


def _short_row(node: str, gpu: Json) -> tuple[Any, ...]:
    reading = gpu.get("reading") or {}
    job = str(gpu.get("job") or gpu.get("who") or "").rpartition("/")[2]
    holder = ": ".join(filter(None, (gpu.get("user"), gpu.get("jobName") or job)))
    return (
        shorten(node, _NODE_WIDTH), gpu["index"], shorten(short_type(gpu["type"]), _TYPE_WIDTH),
        gpu["state"], shorten(holder, _HELD_WIDTH),
        _memory(gpu, reading, _GIB), _percent(reading.get("use")),
    )  # fmt: skip


def _row(node: str, gpu: Json) -> tuple[Any, ...]:
    reading = gpu.get("reading") or {}
    throttled = reading.get("throttled")
    return (
        node, gpu["index"], gpu["type"], gpu["state"], gpu.get("user") or "",
        gpu.get("jobName") or "", _short_name(gpu.get("job") or "") or gpu.get("who") or "",
        _memory(gpu, reading, _MIB), _percent(reading.get("use")),
        _percent(reading.get("useMinute")), _describe_idle(gpu.get("idleSeconds")),
        _figure(reading.get("powerWatts"), " W"), _figure(reading.get("temperatureCelsius"), " C"),
        _figure(reading.get("eccErrors"), ""),
        _UNMEASURED if throttled is None else ", ".join(throttled) or "no",
    )  # fmt: skip


def _short_name(job: str) -> str:
    """Return ``PROJECT/JOB`` for a resource name, as commands accept it."""
    return f"{job.split('/')[1]}/{id_of_row({'name': job})}" if job else ""


def _memory(gpu: Json, reading: Json, unit: int) -> str:
    parts = (reading.get("usedBytes"), gpu.get("memoryBytes"))
    return "/".join(_UNMEASURED if part is None else str(part // unit) for part in parts)


def _describe_idle(seconds: float | None) -> str:
    if not seconds:
        return _UNMEASURED if seconds is None else "no"
    unit, length = next((row for row in _UNITS if seconds >= row[1]), _UNITS[-1])
    return f"{seconds / length:.0f} {unit}"


def _percent(share: float | None) -> str:
    return _UNMEASURED if share is None else f"{share:.0%}"


def _figure(value: float | None, unit: str) -> str:
    return _UNMEASURED if value is None else f"{value:.0f}{unit}"


def _problems(gpus: Sequence[tuple[str, Json]]) -> Iterator[str]:
    for node, gpu in gpus:
        if gpu.get("problem"):
            yield f"{node} GPU {gpu['index']} ({gpu['uuid']}): {gpu['problem']}"
