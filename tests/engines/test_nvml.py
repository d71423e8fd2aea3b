"""Discovery through NVML, against a library that answers as NVIDIA's does."""

import ctypes

import pytest

from trainshed.engines.local import nvml
from trainshed.engines.local.gpus import Device, fake_devices

DEVICES = fake_devices(3)


class FakeLibrary:
    """NVML with two GPUs, the second of which has fallen off the bus."""

    def __init__(self, init=0):
        self.init = init
        self.open = 0

    def nvmlInit_v2(self):  # noqa: N802 - NVML's own names, here and below
        self.open += 1
        return self.init

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount_v2(self, count):  # noqa: N802
        count._obj.value = 2
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index, handle):  # noqa: N802
        handle._obj.value = index + 1
        return 0 if index == 0 else 15  # NVML_ERROR_GPU_IS_LOST

    def nvmlDeviceGetUUID(self, _handle, text, _size):  # noqa: N802
        text.value = b"GPU-1234"
        return 0

    def nvmlDeviceGetName(self, _handle, text, _size):  # noqa: N802
        text.value = b"Tesla T4"
        return 0


def test_the_devices_that_answer_are_found_and_the_library_is_closed_again(monkeypatch):
    library = FakeLibrary()
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library)
    assert nvml.devices({}) == (Device(uuid="GPU-1234", name="Tesla T4"),)
    assert library.open == 0


def test_without_a_driver_there_are_no_devices(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: FakeLibrary(init=9))
    assert nvml.devices({}) == ()

    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert nvml.devices({}) == ()


@pytest.mark.parametrize(
    ("names", "kept"),
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
def test_the_launcher_s_own_cuda_visible_devices_limits_what_it_gives(names, kept):
    assert nvml.visible(DEVICES, names) == tuple(DEVICES[i] for i in kept)
