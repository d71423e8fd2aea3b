"""The GPUs of nodes as a table: what nvidia-smi shows, and who has them."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from trainshed.cli.terminal import table
from trainshed.client.faults import Json

_HEADERS: Final = (
    "NODE", "GPU", "TYPE", "STATE", "HELD BY", "MEMORY MIB", "USE", "USE 1 MIN", "POWER", "TEMP",
    "ECC", "THROTTLED",
)  # fmt: skip
_MIB: Final = 1 << 20
_UNMEASURED: Final = "-"


def gpu_table(nodes: Sequence[Json]) -> str:
    """The table, and below it a line for each GPU that has a problem; empty without GPUs."""
    found = [(node["name"], gpu) for node in nodes for gpu in node.get("devices") or ()]
    if not found:
        return ""
    rows = (_row(name, gpu) for name, gpu in found)
    return "\n".join([table(_HEADERS, rows), *_problems(found)])


def _row(node: str, gpu: Json) -> tuple[Any, ...]:
    reading = gpu.get("reading") or {}
    throttled = reading.get("throttled")
    return (
        node, gpu["index"], gpu["type"], gpu["state"], gpu.get("job") or gpu.get("who") or "",
        _memory(gpu, reading), _percent(reading.get("use")), _percent(reading.get("useMinute")),
        _figure(reading.get("powerW"), " W"), _figure(reading.get("temperatureC"), " C"),
        _figure(reading.get("eccErrors"), ""),
        _UNMEASURED if throttled is None else ", ".join(throttled) or "no",
    )  # fmt: skip


def _memory(gpu: Json, reading: Json) -> str:
    parts = (reading.get("usedBytes"), gpu.get("memoryBytes"))
    return "/".join(_UNMEASURED if part is None else str(part // _MIB) for part in parts)


def _percent(share: float | None) -> str:
    return _UNMEASURED if share is None else f"{share:.0%}"


def _figure(value: float | None, unit: str) -> str:
    return _UNMEASURED if value is None else f"{value:.0f}{unit}"


def _problems(found: Sequence[tuple[str, Json]]) -> Iterator[str]:
    for node, gpu in found:
        if gpu.get("problem"):
            yield f"{node} GPU {gpu['index']} ({gpu['uuid']}): {gpu['problem']}"
