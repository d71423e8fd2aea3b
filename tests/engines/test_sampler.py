"""What GPUs tell of themselves: figures, and what closes them."""

import logging
import os
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pynvml
import pytest

from engines.nvml_library import LOST, NOT_SUPPORTED, Healthy, drive
from engines.support import wait_until
from trainshed.engines.local.devices import find, nvml, readings
from trainshed.engines.local.devices import sampler as sampling
from trainshed.engines.local.devices.gpus import GpuDevice
from trainshed.engines.local.devices.inventory import Inventory
from trainshed.engines.local.devices.sampler import Sampler
from trainshed.engines.local.devices.xids import CLOSING, LOGGED
from trainshed.engines.supervise.record import gpu_file

__all__ = ["drive"]

GPU = GpuDevice(uuid="GPU-1234", name="")
PART = GpuDevice(uuid="MIG-1", name="", gpu_uuid="GPU-1234")
#: Every function of the library that is asked for a figure.
FIGURES = (
    "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetTemperature", "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetCurrentClocksEventReasons",
)  # fmt: skip


@pytest.fixture
def library(drive, monkeypatch):
    # the binding's own memory of which functions there are is emptied by drive
    monkeypatch.setattr(sampling, "_SLICE_S", 0.01)
    return drive(Healthy())


@pytest.fixture
def sampler():
    with closing(Sampler(pause_s=0.01)) as sampler:
        yield sampler


def first(sampler, is_expected=lambda _: True):
    """The first reading that is as wanted."""
    wait_until(
        lambda: (now := sampler.reading(GPU.uuid)) is not None and is_expected(now), "a reading"
    )
    return sampler.reading(GPU.uuid)


def test_a_device_has_its_memory_and_its_place(library):
    assert library.open == 0
    (device,) = find.devices(env={})
    assert (device.memory_bytes, device.pci_bus_id) == (80 << 30, "00000000:3B:00.0")


def test_a_gpu_is_read_while_somebody_listens_and_the_driver_is_closed_after(library, sampler):
    assert sampler.reading(GPU.uuid) is None
    library.answers["nvmlDeviceGetCurrentClocksEventReasons"] = (
        pynvml.nvmlClocksEventReasonGpuIdle
        | pynvml.nvmlClocksEventReasonSwPowerCap
        | pynvml.nvmlClocksEventReasonHwThermalSlowdown
    )
    sampler.start()
    reading = first(sampler)
    assert (reading.used_bytes, reading.use) == (6 << 30, 0.4)
    assert reading.use_minute == pytest.approx(0.4)
    assert (reading.power_w, reading.temperature_c, reading.ecc_errors) == (312.5, 61, 0)
    assert (reading.energy_j, reading.is_energy_summed) == (7_000_000.5, False)
    assert reading.throttled == ("sw power cap", "hw thermal slowdown")
    assert sampler.driver == "580.65.06"
    assert sampler.problem(GPU) == ""
    sampler.close()
    assert library.open == 0


def test_the_mean_use_is_of_the_readings_before(library, sampler):
    sampler.start()
    first(sampler)
    library.use = 100
    assert 0.4 < first(sampler, lambda now: now.use == 1.0).use_minute < 1.0


def test_the_means_begin_again_with_each_lock_whatever_its_time(library, tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINSHED_LOCK_DIR", str(tmp_path))
    lock, sampler = tmp_path / f"{GPU.uuid}.lock", Sampler()

    def read_mean(use):
        library.use = use
        with nvml.session() as driver:
            ((device, handle),) = nvml.devices(driver)
            sampler._sample(driver, device, handle)
        return sampler.reading(GPU.uuid).use_minute

    def lock_at(locked_s):
        lock.touch()
        os.utime(lock, (locked_s, locked_s))

    assert read_mean(80) == pytest.approx(0.8)
    lock_at(time.time() + 3600)  # as if the clock were set back afterwards
    assert read_mean(40) == pytest.approx(0.4)
    assert read_mean(20) == pytest.approx(0.3)
    lock_at(1.0)
    assert read_mean(60) == pytest.approx(0.6)


@pytest.mark.parametrize(("age_s", "unused_s"), [(5.0, 7205.0), (60.0, 0.0)])
def test_the_time_without_use_goes_on_only_after_a_short_outage(library, tmp_path, age_s, unused_s):
    library.use = 0
    file = tmp_path / "node_gpus.json"
    figures = gpu_file.GpuFigures(use=0.0, unused_s=7200.0)
    gpu_file.write_gpu_file(str(file), time.time() - age_s, {GPU.uuid: figures})
    with closing(Sampler(pause_s=0.01, file=file)) as sampler:
        sampler.start()
        first(sampler)
        assert sampler.unused_s(GPU.uuid) == pytest.approx(unused_s, abs=600)


def test_what_a_card_does_not_measure_is_unknown_and_the_rest_is_there(library, sampler):
    library.refuse(NOT_SUPPORTED, *FIGURES, "nvmlDeviceRegisterEvents", "nvmlDeviceGetFieldValues")
    library.refuse(NOT_SUPPORTED, "nvmlDeviceGetRemappedRows")
    del library.answers["nvmlDeviceGetTotalEccErrors"]  # an old library has no such function
    sampler.start()
    reading = first(sampler)
    unknown = (
        reading.use,
        reading.use_minute,
        reading.power_w,
        reading.energy_j,
        reading.ecc_errors,
        reading.throttled,
    )
    assert unknown == (None,) * 6
    assert reading.used_bytes == 7 << 30  # the older function tells what the newer refuses
    assert sampler.problem(GPU) == ""


def test_supervisors_read_the_figures_from_a_file_also_of_a_gpu_that_was_lost(
    library, tmp_path, monkeypatch
):
    monkeypatch.setattr(sampling, "EVERY_S", 0.01)
    file = tmp_path / "node_gpus.json"

    def figures():
        report = gpu_file.read_gpu_file(str(file), time.time())
        return report and report.gpus[GPU.uuid]

    with closing(Sampler(pause_s=0.01, file=file)) as sampler:
        sampler.start()
        wait_until(lambda: (now := figures()) and now.use == 0.4, "there are figures")
        assert figures()[:5] == (0.4, float(6 << 30), 312.5, 61.0, 7_000_000.5)
        assert sampler.recent(GPU.uuid)
        library.refuse(LOST, *FIGURES, "nvmlDeviceGetMemoryInfo")
        wait_until(lambda: figures() == gpu_file.GpuFigures(), "its figures end")


@pytest.mark.usefixtures("library")
def test_a_disk_that_is_full_is_told_once_and_sampling_goes_on(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(sampling, "EVERY_S", 0.01)
    file = tmp_path / "missing" / "node_gpus.json"
    with closing(Sampler(pause_s=0.01, file=file)) as sampler:
        sampler.start()
        wait_until(lambda: len(sampler.recent(GPU.uuid)) > 3, "it goes on")
        file.parent.mkdir()
        wait_until(file.exists, "it is written as soon as it can be")
    assert len([text for text in caplog.messages if str(file) in text]) == 1


@pytest.mark.usefixtures("library")
def test_instances_of_a_divided_gpu_have_no_figures_of_the_whole():
    query = readings.GpuQuery(pynvml, None)
    pynvml.nvmlInit()
    part = readings.reading(pynvml, query, datetime.now(UTC), is_instance=True)
    assert (part.use, part.power_w, part.energy_j) == (None, None, None)
    assert part.used_bytes == 6 << 30


def test_a_driver_that_hangs_leaves_the_server_without_figures_and_no_more(
    library, sampler, monkeypatch
):
    monkeypatch.setattr(sampling, "_FRESH", timedelta(seconds=0.2))
    monkeypatch.setattr(sampling, "_CLOSE_S_MAX", 0.1)
    sampler.start()
    first(sampler)
    hangs, goes_on = threading.Event(), threading.Event()
    library.hang = lambda: (hangs.set(), goes_on.wait(60))
    try:
        assert hangs.wait(60)
        wait_until(lambda: sampler.reading(GPU.uuid) is None, "the reading is too old")
        sampler.close()  # does not wait for the driver
    finally:
        goes_on.set()


@pytest.mark.parametrize("xid", CLOSING)
def test_an_xid_that_nvidia_answers_with_a_reset_closes_the_gpu(xid, library, sampler, caplog):
    library.xids.put(xid)
    sampler.start()
    wait_until(lambda: sampler.problem(GPU), "it is closed")
    assert sampler.problem(GPU).startswith(f"Xid {xid} (")
    assert "restart the machine" in sampler.problem(GPU)
    assert sampler.problem(PART) == sampler.problem(GPU)
    sampler.close()
    assert [r.levelno for r in caplog.records if f"Xid {xid}" in r.message] == [logging.ERROR]


def test_an_xid_of_a_gpu_that_is_not_known_closes_none_and_is_told(library, sampler, caplog):
    library.refuse(LOST, "nvmlDeviceGetUUID")
    library.xids.put(79)
    sampler.start()
    wait_until(lambda: "Xid 79" in caplog.text, "it is told")
    assert (sampler.problem(GPU), sampler.problem(PART)) == ("", "")


def test_xids_of_programs_close_nothing_and_are_told_once(library, sampler, caplog):
    for xid in (*LOGGED, 31, 31):
        library.xids.put(xid)
    sampler.start()
    wait_until(lambda: sampler.xid_counts(GPU).get(31) == 3, "three are heard")
    assert sampler.xid_counts(PART)[31] == 3
    assert sampler.problem(GPU) == ""
    sampler.close()
    messages = [record.message for record in caplog.records if "Xid 31" in record.message]
    report = "the driver reported an error of GPU GPU-1234: "
    assert messages == [f"{report}Xid 31 (GPU memory page fault, mostly the program's own)"]


def test_the_first_cause_stays(library, sampler):
    for xid in (95, 79):
        library.xids.put(xid)
    sampler.start()
    wait_until(lambda: sampler.xid_counts(GPU).get(79), "the second is heard")
    assert sampler.problem(GPU).startswith("Xid 95")


def test_a_recovery_that_the_driver_asks_for_closes_the_gpu(library, sampler):
    sampler.start()
    first(sampler)
    assert sampler.problem(GPU) == ""
    library.recovery = pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET
    library.xids.put(154)
    wait_until(lambda: sampler.problem(GPU), "it is closed")
    assert "nvidia-smi --gpu-reset -i GPU-1234" in sampler.problem(GPU)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda it: setattr(it, "rows", (0, 1, 0, 1)), "a row of its memory could not be remapped"),
        (lambda it: setattr(it, "recovery", 2), "the driver asks for a reset"),
        (lambda it: it.refuse(LOST, "nvmlDeviceGetPowerUsage"), "the driver has lost it"),
    ],
)
def test_what_the_driver_says_without_an_event_closes_too(change, problem, library, sampler):
    change(library)
    sampler.start()
    wait_until(lambda: sampler.problem(GPU), "it is closed")
    assert sampler.problem(GPU).startswith(problem)


def test_rows_that_wait_for_a_reset_close_nothing(library, sampler):
    library.rows = (0, 2, 1, 0)
    sampler.start()
    first(sampler)
    assert sampler.problem(GPU) == ""


def test_a_driver_that_breaks_leaves_figures_out_and_nothing_else(library, sampler, monkeypatch):
    failed = threading.Event()

    def fail(_):
        failed.set()
        raise RuntimeError("broken")

    monkeypatch.setattr(nvml, "devices", fail)
    sampler.start()
    assert failed.wait(60)
    assert sampler.reading(GPU.uuid) is None
    assert sampler.problem(GPU) == ""
    assert library.xids.empty()


def test_without_a_driver_there_is_no_thread(drive):
    drive(None)
    with closing(Sampler()) as sampler:
        sampler.start()
        assert "gpu-sampler" not in {thread.name for thread in threading.enumerate()}


def test_a_closed_gpu_is_held_at_once_though_the_look_is_fresh_and_told_once(
    library, sampler, caplog
):
    inventory = Inventory(Path("/data/jobs"), lambda: (GPU,), 3600.0, sampler.problem)
    assert inventory.status().held == {}
    library.xids.put(79)
    sampler.start()
    wait_until(lambda: sampler.problem(GPU), "it is closed")
    for _ in range(2):
        status = inventory.status()
        assert status.held == status.faulty == {GPU.uuid: sampler.problem(GPU)}
    refusal = f"cannot assign the GPU {GPU.uuid} to jobs: Xid 79"
    assert len([text for text in caplog.messages if refusal in text]) == 1
