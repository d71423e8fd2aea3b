"""Devices on the way through the engine: leased with the attempt, given back when all is over."""

import os
import signal
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from engines.attempts import (
    KEY,
    OTHER,
    ended,
    engine_at,
    observe,
    order,
    record,
    supervisor,
    texts,
    until,
)
from engines.support import awaiting, plan_of, python_replica, sleeping, wait_until
from trainshed.engines.local.devices import find
from trainshed.engines.local.devices import locks as device_locks
from trainshed.engines.local.devices.gpus import GpuDevice
from trainshed.engines.local.devices.locks import DeviceHolder
from trainshed.model.attempt import Phase
from trainshed.model.gpus import GpuState
from trainshed.model.resources import FleetPolicy
from trainshed.model.roles import Role

STRANGER = DeviceHolder(pid=12, what="a local run")

#: Takes hold of each device that it sees, as a driver lets only one do; fails where another has it.
TAKE = """
import fcntl, os, sys
devices = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
held = [open(os.path.join({folder!r}, uuid), "w") for uuid in devices]
for file in held:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
inherited = [os.path.realpath(f"/proc/self/fd/{{fd}}") for fd in os.listdir("/proc/self/fd")]
assert not any(name.endswith(".lock") for name in inherited), inherited
print(*devices, flush=True)
"""


@pytest.fixture
def locks(tmp_path, monkeypatch):
    path = tmp_path / "locks"
    device_locks.prepare(path)
    monkeypatch.setenv("TRAINSHED_LOCK_DIR", str(path))
    return path


@pytest.fixture
def held(tmp_path):
    path = tmp_path / "held"
    path.mkdir()
    return path


@pytest.fixture
def engine(root, locks):
    assert locks.is_dir()
    return engine_at(root, find_gpus=None, fake_gpus=3)


def plan(mark, code, count, **more):
    return plan_of([python_replica(Role.PRIMARY, 0, code, gpu_count=count, **more)], mark)


def holder(locks, number):
    return device_locks.holder_of(locks, f"GPU-fake-{number:04d}")


def free(locks):
    return [holder(locks, number) for number in range(3)] == [None] * 3


def test_two_jobs_never_share_and_the_second_begins_when_the_first_is_over(
    engine, root, mark, held, locks
):
    go = held / "go"
    code = TAKE.format(folder=str(held))
    engine.launch(KEY, plan(mark, code + awaiting(go), 2), ())
    until(engine, Phase.READY)
    engine.launch(OTHER, plan(mark, code, 2), ())
    notes = wait_until(lambda: texts(root, "service", OTHER), "the second says that it waits")
    who = f"process {supervisor(root)} (attempt {KEY})"
    assert notes == [
        f"waiting for 2 GPU: GPU-fake-0000 is held by {who}; GPU-fake-0001 is held by {who}"
    ]
    assert observe(engine, OTHER).phase is Phase.STARTING
    go.touch()
    assert ended(engine).outcome.exit_code == 0
    assert ended(engine, OTHER).outcome.exit_code == 0
    assert len(texts(root, key=OTHER)[0].split()) == 2
    assert free(locks)


def test_the_devices_of_a_killed_supervisor_are_free_for_the_next(engine, root, mark, held, locks):
    code = TAKE.format(folder=str(held))
    engine.launch(KEY, plan(mark, code + awaiting(held / "never"), 3), ())
    until(engine, Phase.READY)
    engine.launch(OTHER, plan(mark, code, 3), ())
    wait_until(lambda: texts(root, "service", OTHER), "the second says that it waits")
    os.kill(supervisor(root), signal.SIGKILL)
    assert until(engine, Phase.LOST).phase is Phase.LOST
    assert ended(engine, OTHER).outcome.exit_code == 0
    assert free(locks)


def test_an_attempt_that_cannot_have_its_devices_is_lost_and_not_failed(root, mark, locks):
    engine = engine_at(root, find_gpus=None, fake_gpus=3, gpu_wait_s=0.0)
    with closing(device_locks.try_lock(locks, "GPU-fake-0001", STRANGER)):
        engine.launch(KEY, plan(mark, "", 3), ())
        observation = until(engine, Phase.LOST, Phase.ENDED)
    assert observation.phase is Phase.LOST
    assert observation.fault == (
        "cannot get 3 GPU within 0 s: GPU-fake-0001 is held by process 12 (a local run)"
    )
    assert free(locks)


def test_an_attempt_that_is_stopped_while_it_waits_ends_and_holds_nothing(
    engine, root, mark, locks
):
    with closing(device_locks.try_lock(locks, "GPU-fake-0001", STRANGER)):
        engine.launch(KEY, plan(mark, "", 3), ())
        wait_until(lambda: texts(root, "service"), "it says that it waits")
        engine.stop(KEY, order(5.0))
        ended(engine)
        assert (holder(locks, 0), holder(locks, 2)) == (None, None)


def test_the_node_offers_what_strangers_have_as_held_and_what_is_ours_as_its_own(
    engine, root, mark, locks, held
):
    kind = "NVIDIA_FAKE_GPU"
    engine.launch(KEY, plan(mark, awaiting(held / "never"), 2), ())
    until(engine, Phase.READY)
    (mine,) = engine_at(root, find_gpus=None, fake_gpus=3).fleet()
    assert (mine.gpus, mine.gpus_held, mine.policy) == ({kind: 3}, {}, FleetPolicy.BEST_EFFORT)
    (theirs,) = engine_at(held / "other", find_gpus=None, fake_gpus=3).fleet()
    assert (theirs.gpus, theirs.gpus_held) == ({kind: 3}, {kind: 2})
    with closing(device_locks.try_lock(locks, "GPU-fake-0002", STRANGER)):
        (mine,) = engine_at(root, find_gpus=None, fake_gpus=3).fleet()
        assert (mine.gpus, mine.gpus_held) == ({kind: 3}, {kind: 1})


def test_a_job_that_asks_for_none_sees_none_and_locks_none(engine, root, mark, locks):
    code = (
        "from os import environ as e\n"
        "print(repr(e['CUDA_VISIBLE_DEVICES']), e['NVIDIA_VISIBLE_DEVICES'])"
    )
    engine.launch(KEY, plan(mark, code, 0), ())
    assert ended(engine).outcome.exit_code == 0
    assert texts(root) == ["'' void"]
    assert texts(root, "service") == ["this machine has 3 GPUs; the job asks for none"]
    assert not list(locks.iterdir())


@pytest.mark.parametrize("kind", ["NVIDIA_TESLA_T4", "NVIDIA_H100_80GB", None])
def test_fake_devices_serve_any_type_of_which_a_replica_sees_its_own_only(engine, root, mark, kind):
    code = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    replicas = [
        python_replica(Role.PRIMARY, 0, code, gpu_count=1, gpu_type=kind),
        python_replica(Role.WORKER, 0, f"{code}\n", gpu_count=2, gpu_type=kind),
    ]
    engine.launch(KEY, plan_of(replicas, mark), ())
    assert ended(engine).outcome.exit_code == 0
    assert texts(root) == ["GPU-fake-0000"]
    # the worker may be stopped before it has written anything
    assert texts(root, "worker-replica-0") in ([], ["GPU-fake-0001,GPU-fake-0002"])


@pytest.fixture
def sleeper(tmp_path, monkeypatch):
    """A process that is no job's; which devices it computes on is in the folder of the test."""
    monkeypatch.setenv(find.FOLDER, str(tmp_path))
    process = sleeping()
    yield process
    process.kill()
    process.wait()


def test_an_attempt_is_not_over_before_nobody_computes_on_its_devices(root, mark, locks, sleeper):
    engine = engine_at(root, find_gpus=None, fake_gpus=3)
    pids = root.parent / "GPU-fake-0000.pids"
    code = f"open({str(pids)!r}, 'w').write('{sleeper.pid}')"
    engine.launch(KEY, plan(mark, code, 1), ())
    wait_until(lambda: waiting_for("GPU-fake-0000", str(root)), "it waits for the device")
    assert record(root, "Decided")["exit_code"] == 0
    assert observe(engine).phase is not Phase.ENDED
    assert holder(locks, 0).what == f"attempt {KEY}"
    sleeper.kill()
    assert ended(engine).outcome.exit_code == 0
    assert free(locks)


def waiting_for(uuid, root):
    """Whether a process of an attempt of this test waits until a device is free."""
    for path in Path("/proc").iterdir():
        if not path.name.isdecimal():
            continue
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            here = str((path / "cwd").readlink())
        except OSError:
            continue
        if uuid.encode() in words and here.startswith(root):
            return True
    return False


def test_a_gpu_with_a_problem_is_given_to_nobody_and_the_others_are(
    root, mark, locks, held, monkeypatch
):
    sick = {"GPU-fake-0000": "Xid 79 since then"}
    engine = engine_at(root, find_gpus=None, fake_gpus=2)
    monkeypatch.setattr(engine._inventory, "_problem", lambda device: sick.get(device.uuid, ""))
    engine.launch(KEY, plan(mark, awaiting(held / "never"), 1), ())
    until(engine, Phase.READY)
    assert holder(locks, 0) is None
    assert holder(locks, 1) is not None
    (node,) = engine.fleet()
    assert node.gpus_held == {"NVIDIA_FAKE_GPU": 1}
    assert [(gpu.state, gpu.problem) for gpu in node.devices] == [
        (GpuState.FAULTY, "Xid 79 since then"), (GpuState.FREE, ""),
    ]  # fmt: skip
    faulty, ours = engine.gpus_now()
    assert (faulty.gpu.state, faulty.attempt) == (GpuState.FAULTY, None)
    assert (ours.gpu.state, ours.attempt) == (GpuState.HELD, KEY)
    assert str(KEY) in ours.gpu.who


def test_a_driver_that_hangs_holds_up_nobody_but_who_asks_for_the_fleet(root, mark):
    hangs, query, goes_on = threading.Event(), threading.Event(), threading.Event()

    def devices():
        if hangs.is_set():
            query.set()
            assert goes_on.wait(60)
        return find.fake_devices(1)

    engine = engine_at(root, find_gpus=devices)
    engine.fleet()
    engine._inventory._fresh_s = 0.0
    hangs.set()
    with ThreadPoolExecutor(1) as pool:
        try:
            fleet = pool.submit(engine.fleet)
            assert query.wait(60)
            (gpu,) = aside(engine.gpus_now)
            assert gpu.gpu.uuid == "GPU-fake-0000"
            aside(lambda: engine.launch(KEY, plan(mark, "", 0), ()))
            assert aside(lambda: observe(engine)).key == KEY
            assert not fleet.done()
        finally:
            goes_on.set()
    assert ended(engine).outcome.exit_code == 0


def aside(call):
    """What a call returns on a thread of its own: one that hangs fails the test, and no more."""
    future = Future()
    threading.Thread(target=lambda: future.set_result(call()), daemon=True).start()
    return future.result(60)


def test_a_machine_whose_gpus_are_all_lost_never_begins_to_emulate(root, monkeypatch):
    gpus = [GpuDevice(uuid="GPU-a", name="Tesla T4")]
    monkeypatch.setattr(find, "devices", lambda fake: find.fake_devices(fake) or tuple(gpus))
    engine_at(root, find_gpus=None, fake_gpus=1).fleet()
    assert not root.with_name("gpus.json").exists()
    engine_at(root, find_gpus=None).fleet()
    gpus.clear()
    (node,) = engine_at(root, find_gpus=None).fleet()
    assert node.policy is FleetPolicy.BEST_EFFORT
    assert node.gpus == node.gpus_held == {"NVIDIA_TESLA_T4": 1}
    (gpu,) = node.devices
    assert gpu.state is GpuState.FAULTY
