"""Which GPUs this machine has, asked of the driver's own library (NVML) through ctypes.

The ``nvidia-ml-py`` package wraps the same ``libnvidia-ml.so.1`` and needs it as much, so it would
add an import and find nothing more.  No framework is imported: that would take seconds and would
take hold of a device.
"""

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from trainshed.engines.local.devices.gpus import Device

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"

_LIBRARY = "libnvidia-ml.so.1"
_OK = 0
_TEXT_BYTES = 96  # NVML_DEVICE_UUID_V2_BUFFER_SIZE and NVML_DEVICE_NAME_V2_BUFFER_SIZE of nvml.h

_MIG_ON = 1  # NVML_DEVICE_MIG_ENABLE
_INSUFFICIENT_SIZE = 7  # NVML_ERROR_INSUFFICIENT_SIZE of nvml.h: the count then says what is needed
_PROCESSES = 64  # room at first; more where there are more
_PROCESSES_MAX = 65536


class _ProcessV1(ctypes.Structure):
    """nvmlProcessInfo_v1_t of nvml.h."""

    _fields_ = (("pid", ctypes.c_uint), ("used_bytes", ctypes.c_ulonglong))


class _ProcessV2(ctypes.Structure):
    """nvmlProcessInfo_v2_t of nvml.h, which is also what the third version fills."""

    _fields_ = (
        *_ProcessV1._fields_,
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


#: What lists the processes, the newest first, with what it fills; old drivers have only the last.
_LISTINGS: tuple[tuple[str, type[_ProcessV1 | _ProcessV2]], ...] = (
    ("nvmlDeviceGetComputeRunningProcesses_v3", _ProcessV2),
    ("nvmlDeviceGetComputeRunningProcesses_v2", _ProcessV2),
    ("nvmlDeviceGetComputeRunningProcesses", _ProcessV1),
)


def devices(env: Mapping[str, str] = os.environ) -> tuple[Device, ...]:
    """The GPUs that the launcher may use: all, or those its CUDA_VISIBLE_DEVICES names."""
    with opened() as look:
        return visible(look(), env.get(VISIBLE))


@contextmanager
def opened() -> Iterator[Callable[[], tuple[Device, ...]]]:
    """A look at all GPUs that may be repeated; opening the driver can take a second.

    A GPU that is divided (MIG) is not there itself; its instances are.
    """
    library = _opened()
    if library is None:
        yield tuple
        return
    try:
        yield lambda: _all_devices(library)
    finally:
        library.nvmlShutdown()


def visible(found: Sequence[Device], names: str | None) -> tuple[Device, ...]:
    """Keep the devices that a CUDA_VISIBLE_DEVICES value names, by index or start of UUID.

    As CUDA does, reading ends at the first name that fits no device.  None means: not set.
    Indexes are those of NVML, which CUDA shares where CUDA_DEVICE_ORDER is PCI_BUS_ID or all GPUs
    are alike.  A GPU that is divided (MIG) stands for all its instances.
    """
    if names is None:
        return tuple(found)
    kept: list[Device] = []
    for name in names.split(","):
        meant = _named(found, name.strip())
        if not meant:
            break
        kept += meant
    return tuple(dict.fromkeys(kept))


def _named(found: Sequence[Device], name: str) -> list[Device]:
    if name.isdecimal():
        return [device for device in found if device.index == int(name)]
    if not name:
        return []
    itself = [device for device in found if device.uuid.startswith(name)]
    return itself[:1] or [device for device in found if device.gpu_uuid.startswith(name)]


def _opened() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        return None
    return library if library.nvmlInit_v2() == _OK else None


def _all_devices(library: ctypes.CDLL) -> tuple[Device, ...]:
    count = ctypes.c_uint()
    if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != _OK:
        return ()
    return tuple(device for index in range(count.value) for device in _devices(library, index))


def _devices(library: ctypes.CDLL, index: int) -> Iterator[Device]:
    """The GPU, or its instances where it is divided; nothing where it does not answer."""
    handle = ctypes.c_void_p()
    if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) != _OK:
        return
    gpu = _device(library, handle, index)
    if gpu is None or not _is_divided(library, handle):
        yield from filter(None, [gpu])
        return
    for instance in _instances(library, handle):
        part = _device(library, instance, index)
        if part is not None:
            yield replace(part, gpu_uuid=gpu.uuid)


def _device(library: ctypes.CDLL, handle: ctypes.c_void_p, index: int) -> Device | None:
    uuid = ctypes.create_string_buffer(_TEXT_BYTES)
    name = ctypes.create_string_buffer(_TEXT_BYTES)
    if library.nvmlDeviceGetUUID(handle, uuid, _TEXT_BYTES) != _OK:
        return None
    library.nvmlDeviceGetName(handle, name, _TEXT_BYTES)
    return Device(
        uuid=uuid.value.decode(),
        name=name.value.decode(errors="replace"),
        index=index,
        busy_pids=_busy_pids(library, handle),
    )


def _is_divided(library: ctypes.CDLL, handle: ctypes.c_void_p) -> bool:
    """Whether MIG is on; drivers before 450 and most GPUs know of no such thing."""
    ask = getattr(library, "nvmlDeviceGetMigMode", None)
    now, pending = ctypes.c_uint(), ctypes.c_uint()
    if ask is None or ask(handle, ctypes.byref(now), ctypes.byref(pending)) != _OK:
        return False
    return now.value == _MIG_ON


def _instances(library: ctypes.CDLL, handle: ctypes.c_void_p) -> Iterator[ctypes.c_void_p]:
    count = ctypes.c_uint()
    library.nvmlDeviceGetMaxMigDeviceCount(handle, ctypes.byref(count))
    for number in range(count.value):
        instance = ctypes.c_void_p()
        got = library.nvmlDeviceGetMigDeviceHandleByIndex(handle, number, ctypes.byref(instance))
        if got == _OK:
            yield instance


def _busy_pids(library: ctypes.CDLL, handle: ctypes.c_void_p) -> tuple[int, ...]:
    """The processes on a device but for this one; none where the driver does not tell."""
    for name, kind in _LISTINGS:
        listing = getattr(library, name, None)
        pids = None if listing is None else _listed(listing, handle, kind)
        if pids is not None:
            return tuple(sorted(pids - {os.getpid()}))
    return ()


def _listed(
    listing: Callable[..., int], handle: ctypes.c_void_p, kind: type[_ProcessV1 | _ProcessV2]
) -> set[int] | None:
    room, answer = _PROCESSES, _INSUFFICIENT_SIZE
    while answer == _INSUFFICIENT_SIZE and room <= _PROCESSES_MAX:
        processes, count = (kind * room)(), ctypes.c_uint(room)
        answer = listing(handle, ctypes.byref(count), processes)
        room = 2 * max(room, count.value)  # some may have come meanwhile
    return {process.pid for process in processes[: count.value]} if answer == _OK else None
