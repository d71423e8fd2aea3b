"""Discovery through NVML, against a library that answers as NVIDIA's does."""

import ctypes
import os
import subprocess
import sys

import pytest

from engines.nvml_library import FakeLibrary, drive, number_of, point
from trainshed.engines.local.devices import nvml
from trainshed.engines.local.devices.find import devices, fake_devices
from trainshed.engines.local.devices.gpus import GpuDevice
from trainshed.engines.local.machine import accelerator_of

__all__ = ["drive"]

DEVICES = fake_devices(3)


def test_the_devices_that_answer_are_found_and_the_library_is_closed_again(drive):
    library = drive(FakeLibrary())
    assert devices(env={}) == (GpuDevice(uuid="GPU-1234", name="Tesla T4"),)
    assert library.open == 0


def test_without_a_driver_there_are_no_devices(drive):
    drive(FakeLibrary(init=9))
    assert devices(env={}) == ()
    drive(None)
    assert devices(env={}) == ()


def test_without_a_driver_the_binding_is_not_imported():
    code = (
        "import sys; from trainshed.engines.local.devices.find import devices;"
        "sys.modules['pynvml'] = None; import ctypes;"
        "ctypes.CDLL = lambda name: (_ for _ in ()).throw(OSError(name)); print(devices(env={}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "()\n"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("2,0", [2, 0]),
        ("GPU-fake-0001", [1]),
        ("1,1", [1]),
        ("0,7,1", [0]),
        ("-1", []),
    ],
)
def test_the_launcher_s_own_cuda_visible_devices_limits_what_it_gives(names, expected):
    assert nvml.visible(DEVICES, names) == tuple(DEVICES[i] for i in expected)


class Computing(FakeLibrary):
    """A driver that knows one way to list processes, and finds some beside ourselves."""

    def __init__(self, name, pids):
        super().__init__()
        self.pids = pids
        setattr(self, name, self.listing)

    def listing(self, _handle, count, rooms):
        room, count._obj.value = count._obj.value, len(self.pids)
        if room < len(self.pids):
            return 7  # NVML_ERROR_INSUFFICIENT_SIZE
        filled = ctypes.cast(rooms, ctypes.POINTER(Process))
        for i, pid in enumerate(self.pids):
            filled[i].pid = pid
        return 0


class Process(ctypes.Structure):
    """nvmlProcessInfo_v2_t as nvml.h lays it out on 64 bits."""

    _fields_ = (("pid", ctypes.c_uint32), ("_", ctypes.c_uint32), ("rest", ctypes.c_uint64 * 2))


@pytest.mark.parametrize("suffix", ["_v3", "_v2"])
@pytest.mark.parametrize("count", [0, 2, 200])
def test_the_processes_of_others_on_a_device_are_found_by_old_and_new_drivers(suffix, count, drive):
    pids = [os.getpid() + 1 + i for i in range(count)]
    name = f"nvmlDeviceGetComputeRunningProcesses{suffix}"
    drive(Computing(name, [os.getpid(), *pids]))
    (device,) = devices(env={})
    assert device.busy_pids == tuple(pids)


def test_a_driver_that_does_not_tell_of_processes_leaves_its_devices_usable(drive):
    library = Computing("nvmlDeviceGetComputeRunningProcesses_v3", [])
    library.nvmlDeviceGetComputeRunningProcesses_v3 = lambda *_: 3  # NVML_ERROR_NOT_SUPPORTED
    drive(library)
    assert devices(env={})[0].busy_pids == ()


class Divided(FakeLibrary):
    """NVML with a GPU that is divided into two instances (MIG), and one that is whole."""

    NAMES = (b"NVIDIA A100-SXM4-40GB", b"NVIDIA A100-SXM4-40GB MIG 3g.20gb")
    UUIDS = ("GPU-a", "GPU-b", "MIG-1", "MIG-2")

    def __init__(self, *, instances=2):
        super().__init__()
        self.instances = instances

    def nvmlDeviceGetHandleByIndex_v2(self, index, handle):  # noqa: N802
        point(handle, index.value + 1)
        return 0

    def nvmlDeviceGetMigMode(self, handle, now, _pending):  # noqa: N802
        now._obj.value = int(number_of(handle) == 1)
        return 0 if number_of(handle) == 1 else 3  # NVML_ERROR_NOT_SUPPORTED

    def nvmlDeviceGetMaxMigDeviceCount(self, _handle, count):  # noqa: N802
        count._obj.value = 7
        return 0

    def nvmlDeviceGetMigDeviceHandleByIndex(self, _handle, number, instance):  # noqa: N802
        point(instance, 3 + number.value)
        return 0 if number.value < self.instances else 6  # NVML_ERROR_NOT_FOUND

    def nvmlDeviceGetUUID(self, handle, text, _size):  # noqa: N802
        text.value = self.UUIDS[number_of(handle) - 1].encode()
        return 0

    def nvmlDeviceGetName(self, handle, text, _size):  # noqa: N802
        text.value = self.NAMES[number_of(handle) > 2]
        return 0


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (None, ["MIG-1", "MIG-2", "GPU-b"]),
        ("0", ["MIG-1", "MIG-2"]),
        ("1", ["GPU-b"]),
        ("MIG-2,GPU-b", ["MIG-2", "GPU-b"]),
        ("GPU-a", ["MIG-1", "MIG-2"]),
        ("2", []),
    ],
)
def test_a_divided_gpu_is_offered_as_its_instances_and_never_whole(names, expected, drive):
    drive(Divided())
    env = {} if names is None else {"CUDA_VISIBLE_DEVICES": names}
    assert [device.uuid for device in devices(env=env)] == expected


def test_a_divided_gpu_without_instances_offers_nothing(drive):
    drive(Divided(instances=0))
    assert [device.uuid for device in devices(env={})] == ["GPU-b"]


def test_an_instance_is_not_given_for_the_whole_gpu(drive):
    drive(Divided())
    part, _, whole = devices(env={})
    assert accelerator_of(whole) == "NVIDIA_TESLA_A100"
    assert accelerator_of(part) == "NVIDIA_A100_SXM4_40GB_MIG_3G_20GB"


def test_a_look_is_repeated_without_opening_the_driver_again(drive):
    library = drive(FakeLibrary())
    with nvml.opened() as look:
        assert look() == look() != ()
        assert library.open == 1
    assert library.open == 0
