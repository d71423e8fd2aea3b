"""Lists the GPUs of this machine with the driver, through NVIDIA's own binding (decision 0031).

The binding has 8,000 lines, so it is imported only on machines with a driver.  No framework is
imported for this: a framework would take seconds and would occupy a device.
"""

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

from trainshed.engines.local.devices.gpus import GpuDevice

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"

_LIBRARY: Final = "libnvidia-ml.so.1"


@contextmanager
def opened() -> Iterator[Callable[[], tuple[GpuDevice, ...]]]:
    """Open the driver, which can take a second; yield a function that lists all GPUs.

    A GPU that is divided (MIG) is listed by its instances only.
    """
    with session() as nvml:
        yield tuple if nvml is None else lambda: tuple(device for device, _ in devices(nvml))


@contextmanager
def session() -> Iterator[Any]:
    """Yield the binding with the driver opened; None if there is no driver, or it does not work."""
    nvml = _open_library()
    try:
        yield nvml
    finally:
        if nvml is not None:
            with suppress(nvml.NVMLError):
                nvml.nvmlShutdown()


def has_driver() -> bool:
    """Return whether this machine has the library of NVIDIA's driver, which may still fail."""
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return False
    return True


def handles(nvml: Any) -> Iterator[tuple[int, Any]]:
    """Yield (index, handle) of the GPUs that answer; a GPU that has fallen off the bus does not."""
    count = 0
    with suppress(nvml.NVMLError):
        count = nvml.nvmlDeviceGetCount()
    for index in range(count):
        with suppress(nvml.NVMLError):
            yield index, nvml.nvmlDeviceGetHandleByIndex(index)


def devices(nvml: Any) -> Iterator[tuple[GpuDevice, Any]]:
    """Yield all devices with their handles; a divided GPU is listed by its instances."""
    for index, handle in handles(nvml):
        with suppress(nvml.NVMLError):
            yield from _list_parts(nvml, handle, index)


def visible(devices: Sequence[GpuDevice], names: str | None) -> tuple[GpuDevice, ...]:
    """Keep the devices that a CUDA_VISIBLE_DEVICES value names, by index or start of UUID.

    As in CUDA, the first name that matches no device ends the list.  None: the variable is not set.
    Indexes are those of NVML.  CUDA has the same ones if CUDA_DEVICE_ORDER is PCI_BUS_ID, or if all
    GPUs are of one type.  The name of a divided GPU (MIG) stands for all its instances.
    """
    if names is None:
        return tuple(devices)
    selected: list[GpuDevice] = []
    for name in names.split(","):
        matches = _select_named(devices, name.strip())
        if not matches:
            break
        selected += matches
    return tuple(dict.fromkeys(selected))


def _select_named(devices: Sequence[GpuDevice], name: str) -> list[GpuDevice]:
    if name.isdecimal():
        return [device for device in devices if device.index == int(name)]
    if not name:
        return []
    itself = [device for device in devices if device.uuid.startswith(name)]
    return itself[:1] or [device for device in devices if device.gpu_uuid.startswith(name)]


def _open_library() -> Any:
    if not has_driver():
        return None
    import pynvml  # noqa: PLC0415  # only machines with a driver need it

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _list_parts(nvml: Any, handle: Any, index: int) -> Iterator[tuple[GpuDevice, Any]]:
    """Yield the GPU, or its instances where it is divided."""
    gpu = _read_device(nvml, handle, index)
    if not _is_divided(nvml, handle):
        yield gpu, handle
        return
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        with suppress(nvml.NVMLError):
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            part = _read_device(nvml, instance, index)
            part = replace(part, gpu_uuid=gpu.uuid, minor=gpu.minor)
            yield replace(part, pci_bus_id=gpu.pci_bus_id), instance


def _read_device(nvml: Any, handle: Any, index: int) -> GpuDevice:
    name, minor = "", None
    with suppress(nvml.NVMLError, UnicodeDecodeError):
        name = nvml.nvmlDeviceGetName(handle)
    with suppress(nvml.NVMLError):
        minor = nvml.nvmlDeviceGetMinorNumber(handle)
    return GpuDevice(
        uuid=nvml.nvmlDeviceGetUUID(handle),
        name=name,
        index=index,
        minor=minor,
        busy_pids=_read_busy_pids(nvml, handle),
        memory_bytes=_read_memory_bytes(nvml, handle),
        pci_bus_id=_read_pci_bus_id(nvml, handle),
    )


def _is_divided(nvml: Any, handle: Any) -> bool:
    """Return whether MIG is on; most GPUs do not support it."""
    with suppress(nvml.NVMLError):
        current, _ = nvml.nvmlDeviceGetMigMode(handle)
        return bool(current == nvml.NVML_DEVICE_MIG_ENABLE)
    return False


def _read_busy_pids(nvml: Any, handle: Any) -> tuple[int, ...]:
    """Return the processes on a device except this one; none if the driver reports none."""
    for listing in (
        nvml.nvmlDeviceGetComputeRunningProcesses_v3,
        nvml.nvmlDeviceGetComputeRunningProcesses_v2,
    ):
        with suppress(nvml.NVMLError):
            return tuple(sorted({process.pid for process in listing(handle)} - {os.getpid()}))
    return ()


def _read_memory_bytes(nvml: Any, handle: Any) -> int | None:
    with suppress(nvml.NVMLError):
        return int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    return None


def _read_pci_bus_id(nvml: Any, handle: Any) -> str:
    with suppress(nvml.NVMLError):
        bus_id = nvml.nvmlDeviceGetPciInfo(handle).busId
        return bus_id.decode(errors="replace") if isinstance(bus_id, bytes) else str(bus_id)
    return ""
