"""What the machine has stays known, whoever has it now and whatever the driver forgets."""

import logging
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from trainshed.engines.local.devices import find, remembered
from trainshed.engines.local.devices import locks as device_locks
from trainshed.engines.local.devices.gpus import GpuDevice
from trainshed.engines.local.devices.inventory import Inventory
from trainshed.engines.local.devices.locks import DeviceHolder
from trainshed.engines.local.devices.remembered import Remembered

OURS = DeviceHolder(pid=11, what="attempt 7/1", root="/data/jobs")
STRANGER = DeviceHolder(pid=12, what="a local run")


@pytest.fixture
def locks(tmp_path, monkeypatch):
    path = tmp_path / "locks"
    device_locks.prepare(path)
    monkeypatch.setenv("TRAINSHED_LOCK_DIR", str(path))
    return path


@pytest.fixture
def answers():
    """What the driver says, from one look to the next."""
    return list(find.fake_devices(3))


def make_inventory(answers, fresh_s=0.0):
    return Inventory(Path("/data/jobs"), lambda: tuple(answers), fresh_s)


def uuids(stock):
    return [device.uuid for device in stock.devices]


def test_what_a_stranger_has_is_held_and_comes_back_and_both_are_logged_once(
    locks, answers, caplog
):
    caplog.set_level(logging.INFO)
    inventory = make_inventory(answers)
    with closing(device_locks.try_lock(locks, "GPU-fake-0000", OURS)):
        assert inventory.status().held == {}
        with closing(device_locks.try_lock(locks, "GPU-fake-0001", STRANGER)):
            for _ in range(2):
                assert inventory.status().held == {"GPU-fake-0001": "process 12 (a local run)"}
        assert inventory.status().held == {}
    assert caplog.messages == [
        "cannot assign the GPU GPU-fake-0001 to jobs: process 12 (a local run)",
        "the GPU GPU-fake-0001 is available to jobs again",
    ]


def test_a_driver_that_answers_no_more_makes_no_machine_without_gpus(locks, answers):
    assert locks.is_dir()
    inventory = make_inventory(answers)
    before = inventory.status()
    del answers[1:]
    few = inventory.status()
    assert uuids(few) == uuids(before)
    assert set(few.held) == {"GPU-fake-0001", "GPU-fake-0002"}
    answers[:] = find.fake_devices(3)
    assert inventory.status() == before


def test_a_gpu_that_was_divided_anew_is_not_missed(locks):
    assert locks.is_dir()
    parts = [GpuDevice(uuid=f"MIG-{n}", name="", gpu_uuid="GPU-a") for n in range(2)]
    answers = [GpuDevice(uuid="GPU-a", name="")]
    inventory = make_inventory(answers)
    assert uuids(inventory.status()) == ["GPU-a"]
    for now in (parts[:1], parts[1:], [GpuDevice(uuid="GPU-a", name="")]):
        answers[:] = now
        stock = inventory.status()
        assert (list(stock.devices), stock.held) == (now, {})


def test_instances_of_a_gpu_that_is_gone_are_missed(locks):
    assert locks.is_dir()
    parts = [GpuDevice(uuid=f"MIG-{n}", name="", gpu_uuid="GPU-a") for n in range(2)]
    other = GpuDevice(uuid="GPU-b", name="", index=1)
    answers = [*parts, other]
    inventory = make_inventory(answers)
    inventory.status()
    for now in ([other], []):
        answers[:] = now
        stock = inventory.status()
        assert uuids(stock) == ["MIG-0", "MIG-1", "GPU-b"]
        assert stock.faulty.keys() == set(uuids(stock)) - {device.uuid for device in now}


def test_a_look_is_good_for_a_while(locks, answers):
    assert locks.is_dir()
    inventory = make_inventory(answers, fresh_s=3600.0)
    before = inventory.status()
    answers.clear()
    assert inventory.status() is before


GPU_A = GpuDevice(uuid="GPU-a", name="Tesla T4", busy_pids=(7,), memory_bytes=16 << 30)
PART = GpuDevice(uuid="MIG-1", name="", index=1, gpu_uuid="GPU-b")


@pytest.fixture
def gpus_file(tmp_path):
    return tmp_path / "gpus.json"


def restarted(gpus_file, *answers):
    """What the inventory of a new server says."""
    return Inventory(
        Path("/data/jobs"), lambda: answers, 0.0, remembered=Remembered(gpus_file)
    ).status()


def test_a_gpu_that_is_lost_is_missed_after_a_restart_of_the_server_too(locks, gpus_file):
    assert locks.is_dir()
    assert restarted(gpus_file, GPU_A, PART).faulty == {}
    for _ in range(2):
        stock = restarted(gpus_file)
        assert stock.devices == [replace(GPU_A, busy_pids=())]
        assert stock.faulty.keys() == stock.held.keys() == {"GPU-a"}
    assert restarted(gpus_file, GPU_A).faulty == {}
    assert gpus_file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "other",
    [
        lambda patch, _: patch.setattr(remembered, "boot_id", lambda: "another boot"),
        lambda patch, _: patch.setenv("CUDA_VISIBLE_DEVICES", "1"),
        lambda _, gpus_file: gpus_file.write_text("[]"),
        lambda _, gpus_file: gpus_file.write_text('{"boot_id": 1, "gpus": [{}]}'),
        lambda _, gpus_file: gpus_file.write_text("torn"),
        lambda _, gpus_file: (gpus_file.unlink(), gpus_file.mkdir()),
    ],
)
def test_what_was_kept_for_another_machine_or_cannot_be_read_counts_as_nothing(
    other, locks, gpus_file, monkeypatch
):
    assert locks.is_dir()
    restarted(gpus_file, GPU_A)
    other(monkeypatch, gpus_file)
    assert uuids(restarted(gpus_file)) == []
    assert uuids(restarted(gpus_file, GPU_A)) == ["GPU-a"]


def test_what_is_remembered_is_written_when_it_changes_and_not_otherwise(locks, gpus_file):
    assert locks.is_dir()
    assert uuids(restarted(gpus_file)) == []
    assert not gpus_file.exists()
    restarted(gpus_file, GPU_A)
    answers = [GPU_A]
    inventory = Inventory(
        Path("/data/jobs"), lambda: tuple(answers), 0.0, remembered=Remembered(gpus_file)
    )
    inventory.status()
    gpus_file.unlink()
    inventory.status()
    answers.clear()
    inventory.status()
    assert not gpus_file.exists()
    answers += [GPU_A, GpuDevice(uuid="GPU-c", name="", index=2)]
    inventory.status()
    assert gpus_file.exists()
