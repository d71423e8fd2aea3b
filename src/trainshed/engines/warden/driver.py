"""Reads GPUs through NVIDIA's driver on a node of a cluster, with ctypes alone.

The server uses NVIDIA's own binding (decision 0031), which nodes do not have: they have nothing but
Python.  Only the helper of ``gpu_helper`` imports this module.
"""

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Optional

from trainshed.engines.supervise.record.gpu_file import GpuFigures

LIBRARY: Final = "libnvidia-ml.so.1"
_UUID_BYTES: Final = 96
_PERCENT, _MILLI = 100.0, 1000.0
_TEMPERATURE_OF_GPU: Final = 0
_MIG_ON: Final = 1


class _Rates(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _MemoryV2(ctypes.Structure):
    """Counts the driver's own memory apart from the memory in use, as nvidia-smi does."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class VisibleGpu(NamedTuple):
    """A GPU that this process may use, or an instance of one that is divided (MIG)."""

    uuid: str
    number: int
    """The driver's number of the GPU."""
    handle: Any
    is_instance: bool = False


class Driver:
    """The opened driver."""

    def __init__(self) -> None:
        """Open the driver.  Raises OSError if there is none, or it does not work."""
        self._library = ctypes.CDLL(LIBRARY)
        if self._library.nvmlInit_v2():
            raise OSError("the NVIDIA driver does not answer")

    def list_gpus(self) -> list[VisibleGpu]:
        """List the GPUs that answer; a divided one by its instances."""
        count = ctypes.c_uint()
        if not self._fill("nvmlDeviceGetCount_v2", ctypes.byref(count)):
            return []
        return [gpu for index in range(count.value) for gpu in self._list_parts(index)]

    def read_figures(self, gpu: VisibleGpu) -> GpuFigures:
        """Read a GPU; what the driver refuses is None.

        An instance has only its memory: its use and its power are those of the whole GPU.
        """
        memory = self._read_memory(gpu.handle)
        if gpu.is_instance:
            return GpuFigures(memory=memory)
        rates, degrees = _Rates(), ctypes.c_uint()
        has_use = self._fill("nvmlDeviceGetUtilizationRates", gpu.handle, ctypes.byref(rates))
        has_degrees = self._fill(
            "nvmlDeviceGetTemperature", gpu.handle, _TEMPERATURE_OF_GPU, ctypes.byref(degrees)
        )
        return GpuFigures(
            use=rates.gpu / _PERCENT if has_use else None,
            memory=memory,
            power=self._read_thousandths("nvmlDeviceGetPowerUsage", gpu.handle, ctypes.c_uint()),
            temperature=float(degrees.value) if has_degrees else None,
            energy_j=self._read_thousandths(
                "nvmlDeviceGetTotalEnergyConsumption", gpu.handle, ctypes.c_ulonglong()
            ),
        )

    def _list_parts(self, index: int) -> Iterator[VisibleGpu]:
        handle = ctypes.c_void_p()
        if not self._fill("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle)):
            return
        mode, pending, parts = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
        modes = (ctypes.byref(mode), ctypes.byref(pending))
        if not self._fill("nvmlDeviceGetMigMode", handle, *modes) or mode.value != _MIG_ON:
            yield VisibleGpu(self._read_uuid(handle), index, handle)
            return
        self._fill("nvmlDeviceGetMaxMigDeviceCount", handle, ctypes.byref(parts))
        for number in range(parts.value):
            part = ctypes.c_void_p()
            name = "nvmlDeviceGetMigDeviceHandleByIndex"
            if self._fill(name, handle, number, ctypes.byref(part)):
                yield VisibleGpu(self._read_uuid(part), index, part, is_instance=True)

    def _read_uuid(self, handle: Any) -> str:
        text = ctypes.create_string_buffer(_UUID_BYTES)
        self._fill("nvmlDeviceGetUUID", handle, text, _UUID_BYTES)
        return text.value.decode("ascii", "replace")

    def _read_memory(self, handle: Any) -> Optional[float]:
        newer = _MemoryV2(version=ctypes.sizeof(_MemoryV2) | 2 << 24)
        if self._fill("nvmlDeviceGetMemoryInfo_v2", handle, ctypes.byref(newer)):
            return float(newer.used)
        older = _Memory()
        is_filled = self._fill("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(older))
        return float(older.used) if is_filled else None

    def _read_thousandths(self, name: str, handle: Any, number: Any) -> Optional[float]:
        """Read milliwatts as watts, or millijoules as joules."""
        is_filled = self._fill(name, handle, ctypes.byref(number))
        return float(number.value) / _MILLI if is_filled else None

    def _fill(self, name: str, *arguments: Any) -> bool:
        """Call a function that fills in its last argument; return whether it did."""
        function = getattr(self._library, name, None)
        return function is not None and function(*arguments) == 0


def has_driver() -> bool:
    """Return whether this machine has the library of NVIDIA's driver, which may still fail."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


def select_visible(gpus: Sequence[VisibleGpu], names: Optional[str]) -> list[VisibleGpu]:
    """Select the GPUs that a value of CUDA_VISIBLE_DEVICES names, by index or start of UUID.

    None: the variable is not set, and the process may use all of them.  As in CUDA, the first name
    that matches no GPU ends the list.
    """
    if names is None:
        return list(gpus)
    selected: list[VisibleGpu] = []
    for name in (word.strip() for word in names.split(",")):
        matches = [gpu for gpu in gpus if name == str(gpu.number) or gpu.uuid.startswith(name)]
        if not name or not matches:
            break
        selected += [gpu for gpu in matches if gpu not in selected]
    return selected
