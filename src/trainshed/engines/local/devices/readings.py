"""Reads the figures of one GPU, and its permanent fault.

A card or its driver may lack some figures: laptops have no ECC.  Such a figure is None, and the
others are still read.  MIG instances have no use, power and energy of their own: those of the whole
GPU would be counted once for each instance, so they are not read.
"""

from datetime import datetime
from typing import Any, Final

from trainshed.model.gpus import GpuSample

#: Reasons for lower clocks that cost speed, by their bit, as ``nvidia-smi -q`` names them.  Idle
#: clocks, set clocks and clocks synchronized with other GPUs do not count.
_THROTTLES: Final = {
    0x04: "sw power cap",
    0x08: "hw slowdown",
    0x20: "sw thermal slowdown",
    0x40: "hw thermal slowdown",
    0x80: "hw power brake slowdown",
}
#: nvmlDeviceGpuRecoveryAction_t: reset, restart of the node, drain and reset, bus reset, restart of
#: the system.  With the other values, new programs can run.
_RECOVERY_BY_RESET: Final = frozenset({1, 2, 4, 6, 7})
#: The results of ``find_fault``.
NOT_REMAPPED: Final = "a row of its memory could not be remapped"
NEEDS_RESET: Final = "the driver asks for a reset"
LOST: Final = "the driver has lost it"
_PERCENT: Final = 100.0
#: The driver counts milliwatts and millijoules.
_MILLI: Final = 1000.0


class GpuQuery:
    """Calls functions of the driver for one GPU; a call that fails returns None."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        """``nvml`` is the opened binding, ``handle`` that of the GPU."""
        self._nvml = nvml
        self._handle = handle
        self.is_lost = False
        """Whether a call has failed because the GPU is gone."""
        self.needs_reset = False

    def __call__(self, function: str, *args: Any, **named: Any) -> Any:
        """Call a function of the binding whose first argument is the GPU."""
        call = getattr(self._nvml, function, None)
        if call is None:
            return None
        try:
            return call(self._handle, *args, **named)
        except self._nvml.NVMLError as error:
            code = getattr(error, "value", None)
            self.is_lost |= code == self._nvml.NVML_ERROR_GPU_IS_LOST
            self.needs_reset |= code == self._nvml.NVML_ERROR_RESET_REQUIRED
        return None


def reading(nvml: Any, ask: GpuQuery, at: datetime, *, is_instance: bool = False) -> GpuSample:
    """Return the present figures; fast enough to call every second.

    ``is_instance``: the GPU is an instance of one that is divided (MIG).
    """
    use = None if is_instance else ask("nvmlDeviceGetUtilizationRates")
    power = None if is_instance else ask("nvmlDeviceGetPowerUsage")
    energy = None if is_instance else ask("nvmlDeviceGetTotalEnergyConsumption")
    return GpuSample(
        at=at,
        used_bytes=_read_used_bytes(nvml, ask),
        use=None if use is None else use.gpu / _PERCENT,
        power_w=None if power is None else power / _MILLI,
        energy_j=None if energy is None else energy / _MILLI,
        temperature_c=ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        ecc_errors=ask(
            "nvmlDeviceGetTotalEccErrors",
            nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            nvml.NVML_VOLATILE_ECC,
        ),
        throttled=_read_throttles(ask),
    )


def find_fault(nvml: Any, ask: GpuQuery) -> str:
    """Return the permanent fault: NOT_REMAPPED, NEEDS_RESET or LOST; empty if healthy."""
    rows = ask("nvmlDeviceGetRemappedRows")
    if rows is not None and rows[3]:
        return NOT_REMAPPED
    if _asks_for_reset(nvml, ask):
        return NEEDS_RESET
    if ask.is_lost:
        return LOST
    return NEEDS_RESET if ask.needs_reset else ""


def _read_used_bytes(nvml: Any, ask: GpuQuery) -> int | None:
    """Return the used memory as in nvidia-smi; older drivers include their reserved memory."""
    version = getattr(nvml, "nvmlMemory_v2", None)
    memory = ask("nvmlDeviceGetMemoryInfo", version=version) if version else None
    memory = memory or ask("nvmlDeviceGetMemoryInfo")
    return None if memory is None else int(memory.used)


def _read_throttles(ask: GpuQuery) -> tuple[str, ...] | None:
    bits = ask("nvmlDeviceGetCurrentClocksEventReasons")
    if bits is None:
        bits = ask("nvmlDeviceGetCurrentClocksThrottleReasons")
    return None if bits is None else tuple(word for bit, word in _THROTTLES.items() if bits & bit)


def _asks_for_reset(nvml: Any, ask: GpuQuery) -> bool:
    """Return whether the driver (R565 or newer) recommends a reset or a restart."""
    field = getattr(nvml, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", None)
    values = ask("nvmlDeviceGetFieldValues", [field]) if field else None
    if values is None or values[0].nvmlReturn != nvml.NVML_SUCCESS:
        return False
    return values[0].value.uiVal in _RECOVERY_BY_RESET
