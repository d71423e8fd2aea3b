"""Which GPUs this machine has, asked of the driver's own library (NVML) through ctypes.

The ``nvidia-ml-py`` package wraps the same ``libnvidia-ml.so.1`` and needs it as much, so it would
add an import and find nothing more.  No framework is imported: that would take seconds and would
take hold of a device.
"""

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence

from trainshed.engines.local.gpus import Device

_LIBRARY = "libnvidia-ml.so.1"
_OK = 0
_TEXT_BYTES = 96  # NVML_DEVICE_UUID_V2_BUFFER_SIZE and NVML_DEVICE_NAME_V2_BUFFER_SIZE of nvml.h
_VISIBLE = "CUDA_VISIBLE_DEVICES"

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
    return visible(_all_devices(), env.get(_VISIBLE))


def visible(found: Sequence[Device], names: str | None) -> tuple[Device, ...]:
    """Keep the devices that a CUDA_VISIBLE_DEVICES value names, by index or start of UUID.

    As CUDA does, reading ends at the first name that fits no device.  None means: not set.
    """
    if names is None:
        return tuple(found)
    kept: list[Device] = []
    for name in names.split(","):
        device = _named(found, name.strip())
        if device is None:
            break
        kept.append(device)
    return tuple(dict.fromkeys(kept))


def _named(found: Sequence[Device], name: str) -> Device | None:
    if name.isdecimal():
        return found[int(name)] if int(name) < len(found) else None
    return next((d for d in found if name and d.uuid.startswith(name)), None)


def _all_devices() -> tuple[Device, ...]:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        return ()
    if library.nvmlInit_v2() != _OK:
        return ()
    try:
        count = ctypes.c_uint()
        if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != _OK:
            return ()
        found = (_device(library, index) for index in range(count.value))
        return tuple(device for device in found if device is not None)
    finally:
        library.nvmlShutdown()


def _device(library: ctypes.CDLL, index: int) -> Device | None:
    handle = ctypes.c_void_p()
    if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) != _OK:
        return None
    uuid = ctypes.create_string_buffer(_TEXT_BYTES)
    name = ctypes.create_string_buffer(_TEXT_BYTES)
    if library.nvmlDeviceGetUUID(handle, uuid, _TEXT_BYTES) != _OK:
        return None
    library.nvmlDeviceGetName(handle, name, _TEXT_BYTES)
    return Device(
        uuid=uuid.value.decode(),
        name=name.value.decode(errors="replace"),
        busy_pids=_busy_pids(library, handle),
    )


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
