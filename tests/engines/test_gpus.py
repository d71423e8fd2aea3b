"""Devices belong to one replica at a time; nobody is told of a device that another holds."""

import os
import subprocess
import sys
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.support import DEADLINE_S, Recorder, cluster, python_replica, run_replicas
from trainshed.engines.local.devices import find, gpus
from trainshed.engines.local.devices.leases import DeviceLeaser
from trainshed.engines.local.devices.locks import DeviceHolder
from trainshed.model.roles import Role

ROLES = [Role.PRIMARY, Role.WORKER, Role.PARAMETER_SERVER, Role.EVALUATOR]

#: Holds the devices it gets until its stdin closes, and prints them.
HOLDER = """
import sys
from pathlib import Path
from engines.test_gpus import leased
from trainshed.engines.local.devices import find
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.roles import Role
directory, machine, count = sys.argv[1:]
replica = ReplicaPlan(role=Role.PRIMARY, index=0, task_name="p-0", argv=(), gpu_count=int(count))
devices = find.fake_devices(int(machine))
with leased([replica], devices, lambda text: None, Path(directory)) as shares:
    print(",".join(shares[0].uuids), flush=True)
    sys.stdin.read()
"""


@contextmanager
def leased(replicas, devices, note, directory):
    """What a local run takes of these devices; yields one share a replica."""
    holder = DeviceHolder(os.getpid(), "a local run")
    leaser = DeviceLeaser(
        list_devices=lambda: devices, holder=holder, note=note, aliases={}, lock_dir=directory
    )
    with closing(leaser.lease_free(replicas)) as lease:
        yield lease.shares


asking = st.lists(
    st.builds(
        lambda role, count: python_replica(role, 0, "", gpu_count=count),
        st.sampled_from(ROLES),
        st.integers(0, 8),
    )
)


@given(asking, st.integers(0, 40))
def test_no_more_is_dealt_than_is_free_and_nobody_gets_more_than_asked(replicas, free):
    counts = gpus.deal(replicas, free)
    assert sum(counts) <= free
    assert all(0 <= c <= r.gpu_count for c, r in zip(counts, replicas, strict=True))


@given(asking, st.integers(0, 40))
def test_everybody_gets_all_of_it_when_there_is_enough(replicas, more):
    expected = tuple(r.gpu_count for r in replicas)
    assert gpus.deal(replicas, sum(expected) + more) == expected


@given(st.integers(1, 8), st.integers(1, 10), st.integers(0, 80))
def test_replicas_that_train_together_and_ask_alike_get_alike(gpu_count, count, free):
    replicas = [replace(r, gpu_count=gpu_count) for r in cluster("", *[""] * (count - 1))]
    assert gpus.deal(replicas, free) == (min(gpu_count, free // count),) * count


@given(asking, st.integers(0, 12))
def test_no_device_is_in_two_shares(tmp_path_factory, replicas, machine):
    directory = tmp_path_factory.mktemp("locks")
    devices = find.fake_devices(machine)
    with leased(replicas, devices, str, directory) as shares:
        used = Counter(uuid for share in shares for uuid in share.uuids)
        assert set(used) <= {device.uuid for device in devices}
        assert set(used.values()) <= {1}


def test_the_line_says_what_was_asked_for_and_what_there_is():
    t4 = {"gpu_count": 4, "gpu_type": "NVIDIA_TESLA_T4"}
    replicas = [replace(r, **t4) for r in cluster(*[""] * 10)]
    none = (0,) * 10

    def describe(counts, machine, free):
        return gpus.shortage(replicas, counts, machine=machine, free=free)

    prefix = "asked for 4 NVIDIA_TESLA_T4 per master and worker (40 in all); this machine has "
    assert describe(none, 0, 0) == prefix + "none: the replicas run on the CPU"
    assert describe(none, 8, 3) == prefix + "8, 3 of them free: the replicas run on the CPU"
    assert describe((2,) * 10, 20, 20) == prefix + "20: each gets 2"
    assert describe((2,) + (1,) * 9, 20, 11) == prefix + "20, 11 of them free: each gets 1 to 2"


def test_groups_that_ask_differently_are_named_apart():
    replicas = [
        replace(cluster("")[0], gpu_count=1, gpu_type="NVIDIA_L4", task_name="workerpool0-0"),
        replace(cluster("")[0], gpu_count=2, task_name="workerpool1-0"),
        replace(cluster("")[0], task_name="workerpool2-0"),
    ]
    text = gpus.shortage(replicas, (0, 0, 0), machine=0, free=0)
    assert text.startswith(
        "asked for 1 NVIDIA_L4 per workerpool0, 2 GPU per workerpool1 (3 in all)"
    )


@pytest.fixture
def lock_dir(tmp_path, monkeypatch):
    directory = tmp_path / "locks"
    monkeypatch.setenv("TRAINSHED_LOCK_DIR", str(directory))
    return directory


SHOW = (
    "from os import environ as e\n"
    "print(e.get('CUDA_VISIBLE_DEVICES'), e.get('NVIDIA_VISIBLE_DEVICES'))"
)


def test_each_replica_sees_its_own_devices_by_uuid_and_one_that_asks_for_none_sees_none(lock_dir):
    replicas = [
        python_replica(Role.PRIMARY, 0, SHOW, gpu_count=1),
        python_replica(Role.WORKER, 0, SHOW, gpu_count=2),
        python_replica(Role.WORKER, 1, SHOW),
    ]
    _, recorder = run_replicas(replicas, fake_gpus=4, settle_s=DEADLINE_S)
    assert recorder.texts("master-replica-0") == ["GPU-fake-0000 GPU-fake-0000"]
    two = "GPU-fake-0001,GPU-fake-0002"
    assert recorder.texts("worker-replica-0") == [f"{two} {two}"]
    assert recorder.texts("worker-replica-1") == [" void"]
    assert recorder.notes == []
    locks = sorted(path.name for path in lock_dir.iterdir())
    assert locks == [f"GPU-fake-000{i}.lock" for i in range(3)]


def test_on_a_machine_without_gpus_one_line_says_so_and_no_variable_is_set(lock_dir, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("NVIDIA_VISIBLE_DEVICES", raising=False)
    replica = python_replica(Role.PRIMARY, 0, SHOW, gpu_count=1)
    _, recorder = run_replicas([replica])
    assert recorder.texts("master-replica-0") == ["None None"]
    message = (
        "asked for 1 GPU per master (1 in all); this machine has none: the replicas run on the CPU"
    )
    assert recorder.notes == [f"WARNING: {message}"]
    assert not lock_dir.exists()


def test_two_jobs_on_one_machine_never_share_and_a_killed_one_gives_back(tmp_path):
    def holder(count):
        return subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(tmp_path), "4", str(count)],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def devices_of(process):
        return set(filter(None, process.stdout.readline().strip().split(",")))

    jobs = [holder(3), holder(3), holder(3)]
    try:
        held = [devices_of(job) for job in jobs]
        assert sorted(map(len, held)) == [0, 1, 3]
        assert len(set.union(*held)) == 4
        for job in jobs:
            job.kill()
            job.wait()
        jobs.append(holder(4))
        assert len(devices_of(jobs[-1])) == 4
    finally:
        for job in jobs:
            job.kill()
            job.communicate()


def test_devices_that_an_incomplete_round_leaves_over_are_free_for_the_next_job(tmp_path):
    replicas = [replace(r, gpu_count=4) for r in cluster("", "")]
    note = Recorder().note
    with leased(replicas, find.fake_devices(5), note, tmp_path) as first:
        assert [len(share.uuids) for share in first] == [2, 2]
        one = [replace(replicas[0], gpu_count=1)]
        with leased(one, find.fake_devices(5), note, tmp_path) as second:
            assert len(second[0].uuids) == 1


def shares_of(replicas, devices, directory):
    """What each replica gets while nobody else asks, and what is said about it."""
    recorder = Recorder()
    with leased(replicas, devices, recorder.note, directory) as shares:
        return [len(share.uuids) for share in shares], recorder.notes


def test_a_single_replica_that_asks_for_no_gpu_has_all_that_are_free_to_itself(tmp_path):
    """As gcloud's local train does: the caller's environment, with every GPU in it."""
    devices = find.fake_devices(3)
    alone = cluster("")
    one = [replace(alone[0], gpu_count=1)]
    with leased(alone, devices, pytest.fail, tmp_path) as (share,):
        assert share.uuids == tuple(device.uuid for device in devices)
        assert share.env["CUDA_VISIBLE_DEVICES"] == ",".join(share.uuids)
        assert shares_of(one, devices, tmp_path)[0] == [0]
        assert shares_of(alone, devices, tmp_path) == (
            [0],
            ["this machine has 3 GPUs, none of them free: the job runs on the CPU"],
        )
    with leased(one, devices, pytest.fail, tmp_path):
        assert shares_of(alone, devices, tmp_path) == (
            [2],
            ["this machine has 3 GPUs, 2 of them free: the job gets 2"],
        )


def test_a_trainer_that_asks_for_no_gpu_is_told_of_all_of_them(lock_dir):
    _, recorder = run_replicas([python_replica(Role.PRIMARY, 0, SHOW)], fake_gpus=2)
    names = "GPU-fake-0000,GPU-fake-0001"
    assert recorder.texts("master-replica-0") == [f"{names} {names}"]
    assert recorder.notes == []
    assert lock_dir.is_dir()


@pytest.mark.parametrize(
    ("machine", "notes"),
    [
        (0, []),
        (1, ["this machine has 1 GPU; the job asks for none"]),
        (4, ["this machine has 4 GPUs; the job asks for none"]),
    ],
)
def test_several_replicas_that_ask_for_no_gpu_get_none_and_one_line_says_so(
    machine, notes, lock_dir
):
    replicas = [replace(replica, argv=("python", "-c", SHOW)) for replica in cluster("", "", "")]
    _, recorder = run_replicas(replicas, fake_gpus=machine, settle_s=DEADLINE_S)
    assert recorder.notes == notes
    if machine:
        assert {text for _, text, _ in recorder.lines} == {" void"}
    assert not lock_dir.exists()


def busy(device, *pids):
    return replace(device, busy_pids=pids)


def test_a_device_on_which_somebody_else_computes_is_not_given_and_the_process_is_named(tmp_path):
    first, second, third = find.fake_devices(3)
    devices = (busy(first, 41, 42), second, busy(third, 43))
    two = [replace(cluster("")[0], gpu_count=2)]
    who = "other processes use GPUs: GPU-fake-0000 (process 41, 42), GPU-fake-0002 (process 43)"
    counts, (few, holders) = shares_of(two, devices, tmp_path)
    assert counts == [1]
    assert few.endswith("this machine has 3, 1 of them free: each gets 1")
    assert holders == who
    assert shares_of(cluster(""), devices, tmp_path) == (
        [1],
        ["this machine has 3 GPUs, 1 of them free: the job gets 1", who],
    )


def test_a_busy_device_is_not_spoken_of_when_there_are_enough_others(tmp_path):
    first, second = find.fake_devices(2)
    one = [replace(cluster("")[0], gpu_count=1)]
    assert shares_of(one, (busy(first, 41), second), tmp_path) == ([1], [])


def test_a_device_that_was_busy_is_not_kept_locked(tmp_path):
    (device,) = find.fake_devices(1)
    one = [replace(cluster("")[0], gpu_count=1)]
    with leased(one, [busy(device, 41)], str, tmp_path):
        assert shares_of(one, [device], tmp_path) == ([1], [])
