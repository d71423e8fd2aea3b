"""A library in Python that answers as NVML does, under the binding that is NVIDIA's own."""

import ctypes
import queue

import pynvml
import pytest


@pytest.fixture
def drive(monkeypatch):
    """Let a library stand for NVIDIA's; None for a machine without a driver."""

    def put(library):
        def opened(name):
            if library is None:
                raise OSError(name)
            return library

        monkeypatch.setattr(ctypes, "CDLL", opened)
        monkeypatch.setattr(pynvml, "nvmlLib", library)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        return library

    return put


def point(handle, number):
    """Fill a handle that was given by reference."""
    ctypes.c_void_p.from_buffer(handle._obj).value = number


def number_of(handle):
    """The number that a handle was filled with."""
    return ctypes.cast(handle, ctypes.c_void_p).value


class FakeLibrary:
    """NVML with two GPUs, the second of which has fallen off the bus."""

    def __init__(self, init=0):
        self.init = init
        self.open = 0

    def nvmlInitWithFlags(self, _flags):  # noqa: N802 - NVML's own names, here and below
        self.open += 1
        return self.init

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1
        return 0

    def nvmlDeviceGetCount_v2(self, count):  # noqa: N802
        count._obj.value = 2
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index, handle):  # noqa: N802
        point(handle, index.value + 1)
        return 0 if index.value == 0 else 15  # NVML_ERROR_GPU_IS_LOST

    def nvmlDeviceGetUUID(self, _handle, text, _size):  # noqa: N802
        text.value = b"GPU-1234"
        return 0

    def nvmlDeviceGetName(self, _handle, text, _size):  # noqa: N802
        text.value = b"Tesla T4"
        return 0


NOT_SUPPORTED = 3
LOST = 15
TIMEOUT = 10


class Healthy(FakeLibrary):
    """One GPU that answers everything; a test changes what it says, or adds an Xid."""

    UUID = b"GPU-1234"

    def __init__(self):
        super().__init__()
        self.answers = {
            "nvmlDeviceGetPowerUsage": 312_500,
            "nvmlDeviceGetTotalEnergyConsumption": 7_000_000_500,
            "nvmlDeviceGetTemperature": 61,
            "nvmlDeviceGetTotalEccErrors": 0,
            "nvmlDeviceGetCurrentClocksEventReasons": 0,
        }
        self.use = 40
        self.rows = (0, 0, 0, 0)
        self.recovery = 0
        self.refused = {}
        self.xids = queue.SimpleQueue()
        self.is_hearing = False
        self.hang = lambda: None

    def refuse(self, code, *names):
        """Answer these functions with an error."""
        self.refused |= dict.fromkeys(names, code)

    def __getattr__(self, name):
        """Functions that fill in one number last."""
        if name not in self.answers:
            raise AttributeError(name)
        return lambda *args: self._filled(name, args[-1])

    def _filled(self, name, number):
        number._obj.value = self.answers[name]
        return self.refused.get(name, 0)

    def nvmlDeviceGetCount_v2(self, count):  # noqa: N802
        count._obj.value = 1
        return 0

    def nvmlDeviceGetUUID(self, _handle, text, _size):  # noqa: N802
        text.value = self.UUID
        return self.refused.get("nvmlDeviceGetUUID", 0)

    def nvmlSystemGetDriverVersion(self, text, _size):  # noqa: N802
        text.value = b"580.65.06"
        return 0

    def nvmlDeviceGetMemoryInfo(self, _handle, memory):  # noqa: N802
        memory._obj.total, memory._obj.used = 80 << 30, 7 << 30
        return self.refused.get("nvmlDeviceGetMemoryInfo", 0)

    def nvmlDeviceGetMemoryInfo_v2(self, _handle, memory):  # noqa: N802
        memory._obj.total, memory._obj.used = 80 << 30, 6 << 30
        return self.refused.get("nvmlDeviceGetMemoryInfo_v2", 0)

    def nvmlDeviceGetPciInfo_v3(self, _handle, pci):  # noqa: N802
        pci._obj.busId = b"00000000:3B:00.0"
        return 0

    def nvmlDeviceGetUtilizationRates(self, _handle, rates):  # noqa: N802
        self.hang()
        rates._obj.gpu = self.use
        return self.refused.get("nvmlDeviceGetUtilizationRates", 0)

    def nvmlDeviceGetRemappedRows(self, _handle, *numbers):  # noqa: N802
        for number, value in zip(numbers, self.rows, strict=True):
            number._obj.value = value
        return self.refused.get("nvmlDeviceGetRemappedRows", 0)

    def nvmlDeviceGetFieldValues(self, _handle, _count, values):  # noqa: N802
        values._obj[0].value.uiVal = self.recovery
        return self.refused.get("nvmlDeviceGetFieldValues", 0)

    def nvmlEventSetCreate(self, _set):  # noqa: N802
        return 0

    def nvmlEventSetFree(self, _set):  # noqa: N802
        return 0

    def nvmlDeviceRegisterEvents(self, _handle, kinds, _set):  # noqa: N802
        self.is_hearing = kinds.value == pynvml.nvmlEventTypeXidCriticalError
        return self.refused.get("nvmlDeviceRegisterEvents", 0)

    def nvmlEventSetWait_v2(self, _set, data, timeout):  # noqa: N802
        try:
            xid = self.xids.get(timeout=timeout.value / 1000)
        except queue.Empty:
            return TIMEOUT
        ctypes.c_void_p.from_buffer(data._obj).value = 1
        data._obj.eventType = pynvml.nvmlEventTypeXidCriticalError
        data._obj.eventData = xid
        return 0
