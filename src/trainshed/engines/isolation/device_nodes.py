"""Lists the device nodes of GPUs: those of a lease, and those that a replica must not open."""

import os
import re
from collections.abc import Collection, Iterator
from typing import Final, Protocol

DEV: Final = "/dev"
_GPU: Final = re.compile(r"nvidia\d+")
#: The folder of the nodes for parts of divided GPUs.
_CAPS: Final = "nvidia-caps"


class DeviceNode(Protocol):
    """A GPU, or a part of one, as its driver describes it."""

    @property
    def minor(self) -> int | None:
        """The number of its device node; None: the driver does not report it."""

    @property
    def gpu_uuid(self) -> str:
        """The UUID of the GPU that a part belongs to; empty for a whole GPU."""


def list_all_nodes(dev: str = DEV) -> tuple[str, ...]:
    """Return the nodes of all GPUs of the machine and of their parts."""
    return tuple(sorted(_list_nodes(dev)))


def list_unleased_nodes(own: Collection[str], dev: str = DEV) -> tuple[str, ...]:
    """Return the nodes of all GPUs and parts that are not in ``own``."""
    return tuple(node for node in list_all_nodes(dev) if node not in own)


def list_nodes_of(devices: Collection[DeviceNode], dev: str = DEV) -> tuple[str, ...]:
    """Return the nodes of devices; none for a device whose number the driver does not report.

    A replica with a part gets the nodes of all parts, because the driver does not report which node
    belongs to which part.
    """
    numbers = sorted({device.minor for device in devices if device.minor is not None})
    has_parts = any(device.gpu_uuid for device in devices)
    parts = [node for node in list_all_nodes(dev) if f"/{_CAPS}/" in node] if has_parts else []
    return (*(f"{dev}/nvidia{number}" for number in numbers), *parts)


def _list_nodes(dev: str) -> Iterator[str]:
    for name in _list_names(dev):
        if _GPU.fullmatch(name):
            yield f"{dev}/{name}"
    for name in _list_names(f"{dev}/{_CAPS}"):
        yield f"{dev}/{_CAPS}/{name}"


def _list_names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
