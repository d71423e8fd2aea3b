"""The device nodes of GPUs: those of a lease, and those that a replica must not open."""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

DEV: Final = "/dev"
PROC: Final = "/proc/driver/nvidia/gpus"
_GPU: Final = re.compile(r"nvidia\d+")
#: Of parts of a divided GPU.
_CAPS: Final = "nvidia-caps"
_UUID: Final = re.compile(r"GPU UUID:\s*(\S+)")
_MINOR: Final = re.compile(r"Device Minor:\s*(\d+)")


def every(dev: str = DEV) -> tuple[str, ...]:
    """The nodes of all GPUs of the machine and of their parts."""
    return tuple(sorted(_found(dev)))


def others(own: Collection[str], dev: str = DEV) -> tuple[str, ...]:
    """Those of every GPU that is not leased."""
    return tuple(node for node in every(dev) if node not in own)


def of(
    uuids: Collection[str], gpus: Mapping[str, str], dev: str = DEV, proc: str = PROC
) -> tuple[str, ...]:
    """The nodes of devices by their UUIDs, as the driver tells; of one that it does not know, none.

    ``gpus`` has the GPU of each part.  Who has a part gets the nodes of all parts: the driver does
    not say by UUID which is whose.
    """
    minors = _minors(proc) if uuids else {}
    whole = (gpus.get(uuid, uuid) for uuid in uuids)
    numbers = sorted({minors[uuid] for uuid in whole if uuid in minors})
    parts = [node for node in every(dev) if f"/{_CAPS}/" in node] if gpus else []
    return (*(f"{dev}/nvidia{number}" for number in numbers), *parts)


def _found(dev: str) -> Iterator[str]:
    for name in _names(dev):
        if _GPU.fullmatch(name):
            yield f"{dev}/{name}"
    for name in _names(f"{dev}/{_CAPS}"):
        yield f"{dev}/{_CAPS}/{name}"


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _minors(proc: str) -> dict[str, int]:
    found = {}
    for name in _names(proc):
        try:
            with open(f"{proc}/{name}/information", encoding="utf-8") as file:
                text = file.read()
        except OSError:
            continue
        uuid, minor = _UUID.search(text), _MINOR.search(text)
        if uuid and minor:
            found[uuid[1]] = int(minor[1])
    return found
