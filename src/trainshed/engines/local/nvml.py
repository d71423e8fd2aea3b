"""Which GPUs this machine has, asked of the driver's own library (NVML) through ctypes.

The ``nvidia-ml-py`` package wraps the same ``libnvidia-ml.so.1`` and needs it as much, so it would
add an import and find nothing more.  No framework is imported: that would take seconds and would
take hold of a device.
"""

import ctypes
import os
from collections.abc import Mapping, Sequence

from trainshed.engines.local.gpus import Device

_LIBRARY = "libnvidia-ml.so.1"
_OK = 0
_TEXT_BYTES = 96  # NVML_DEVICE_UUID_V2_BUFFER_SIZE and NVML_DEVICE_NAME_V2_BUFFER_SIZE of nvml.h
_VISIBLE = "CUDA_VISIBLE_DEVICES"


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
    return Device(uuid=uuid.value.decode(), name=name.value.decode(errors="replace"))
