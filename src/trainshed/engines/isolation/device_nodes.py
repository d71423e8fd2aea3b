"""The device nodes of GPUs: those of a lease, and those that a replica must not open."""

import os
import re
from collections.abc import Collection, Iterator
from typing import Final, Protocol

DEV: Final = "/dev"
_GPU: Final = re.compile(r"nvidia\d+")
#: Of parts of a divided GPU.
_CAPS: Final = "nvidia-caps"


class DeviceNode(Protocol):
    """A GPU, or a part of one, as its driver describes it."""

    @property
    def minor(self) -> int | None:
        """The number of its node; None: the driver does not tell."""

    @property
    def gpu_uuid(self) -> str:
        """Of a part: the whole that it is of; empty for a whole one."""


def every(dev: str = DEV) -> tuple[str, ...]:
    """The nodes of all GPUs of the machine and of their parts."""
    return tuple(sorted(_list_nodes(dev)))


def others(own: Collection[str], dev: str = DEV) -> tuple[str, ...]:
    """Those of every GPU that is not leased."""
    return tuple(node for node in every(dev) if node not in own)


def of(devices: Collection[DeviceNode], dev: str = DEV) -> tuple[str, ...]:
    """The nodes of devices; of one whose number the driver does not tell, none.

    Who has a part gets the nodes of all parts: the driver does not say by UUID which is whose.
    """
    numbers = sorted({device.minor for device in devices if device.minor is not None})
    has_parts = any(device.gpu_uuid for device in devices)
    parts = [node for node in every(dev) if f"/{_CAPS}/" in node] if has_parts else []
    return (*(f"{dev}/nvidia{number}" for number in numbers), *parts)


def _list_nodes(dev: str) -> Iterator[str]:
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
