"""Attempts as the service has them: launched once, observed by anybody, stopped in good order."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from engines.attempts import (
    KEY,
    ended,
    engine_at,
    folder,
    lines,
    marked,
    order,
    record,
    texts,
    until,
)
from engines.support import FOREVER, awaiting, plan_of, python_replica, touching, wait_until
from trainshed.engines.local.devices.gpus import GpuDevice
from trainshed.engines.supervise.record.records import Began, append
from trainshed.model.attempt import AttemptKey, Phase
from trainshed.model.faults import EngineFault
from trainshed.model.resources import FleetPolicy, Seat
from trainshed.model.roles import Role

STOPPED = 128 + signal.SIGTERM


def test_an_attempt_is_starting_then_ready_then_ended(root, mark, tmp_path):
    engine, go = engine_at(root), tmp_path / "go"
    engine.launch(KEY, marked(mark, "print('one')\n" + awaiting(go) + "exit(3)", FOREVER), ())
    names = ("master-replica-0", "worker-replica-0")
    assert until(engine, Phase.READY).task_names == names
    wait_until(lambda: texts(root) == ["one"], "the line is there while the replica runs")
    go.touch()
    observation = ended(engine)
    assert observation.outcome.exit_code == 3
    assert [e.task_name for e in observation.outcome.replicas] == list(names)
    assert observation.fault is None
    assert observation.task_names == names
    assert texts(root) == ["one"]


def test_one_that_was_stopped_before_never_starts(root, mark, tmp_path):
    engine, ran = engine_at(root), tmp_path / "ran"
    engine.stop(KEY, order(5.0))
    assert ended(engine).outcome.exit_code == STOPPED
    engine.launch(KEY, marked(mark, touching(ran)), ())
    engine_at(root).launch(KEY, marked(mark, touching(ran)), ())
    assert ended(engine).outcome.message == "stopped before it was started"
    assert not (folder(root) / "plan.json").exists()
    assert not ran.exists()


def test_a_repeated_stop_does_not_shorten_the_grace(root, mark, tmp_path):
    ready, notice, go = tmp_path / "ready", tmp_path / "told", tmp_path / "go"
    code = (
        "import signal, sys\n"
        f"def save(*_):\n    {touching(notice)}    pass\n"
        "signal.signal(15, save)\n" + touching(ready) + awaiting(go) + "print('saved')\n"
    )
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, code), ())
    wait_until(ready.exists, "the handler is there")
    for again in (engine, engine, engine_at(root)):
        again.stop(KEY, order(60.0))
    wait_until(notice.exists, "the replica was told")
    engine.stop(KEY, order(60.0))
    go.touch()
    observation = ended(engine)
    assert texts(root) == ["saved"]
    assert [(e.exit_code, e.stopped_by_us) for e in observation.outcome.replicas] == [(0, True)]


def test_what_cannot_be_started_has_ended_with_a_fault(root, mark):
    replica = replace(python_replica(Role.PRIMARY, 0, ""), argv=("/no/such/program",))
    engine = engine_at(root)
    engine.launch(KEY, plan_of([replica], mark), ())
    observation = ended(engine)
    assert observation.outcome.exit_code == 1
    assert observation.fault == (
        "master-replica-0 cannot be started: /no/such/program: No such file or directory"
    )
    assert observation.task_names == ()


def test_a_plan_that_cannot_be_read_has_ended_with_a_fault(root, mark):
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, "", cwd="/no/such/folder"), ())
    assert "/no/such/folder" in ended(engine).fault


def test_a_seat_elsewhere_is_refused(root, mark):
    seat = Seat(role=Role.PRIMARY, index=0, node="elsewhere")
    with pytest.raises(EngineFault, match="got elsewhere"):
        engine_at(root).launch(KEY, marked(mark, ""), (seat,))


@pytest.mark.usefixtures("patience")
def test_the_next_attempt_s_lines_have_later_stamps_even_if_the_clock_went_back(root, mark):
    engine, later = engine_at(root), AttemptKey(KEY.uid, 2)
    engine.launch(KEY, marked(mark, "print('a')"), ())
    ended(engine)
    ahead = 4_000_000_000 * 10**9
    (path,) = (folder(root) / "log").iterdir()
    text = path.read_text()
    path.write_text(text.replace(str(lines(root)[0].stamp_ns), str(ahead)) + "torn")
    engine.launch(later, marked(mark, "print('b')\nprint('c')"), ())
    ended(engine, later)
    assert [line.stamp_ns - ahead for line in lines(root, later)] == [1, 2]


def test_the_server_s_secrets_are_not_in_the_replica_s_environment(root, mark, monkeypatch):
    monkeypatch.setenv("TRAINSHED_DATABASE", "postgresql://me:hush-hush@db/x")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://localhost:8080/hush-hush")
    monkeypatch.setenv("CLOUDSDK_AUTH_ACCESS_TOKEN", "hush-hush")
    monkeypatch.setenv("HARMLESS", "kept")
    engine = engine_at(root)
    code = "import os; print('hush-hush' in str(os.environ) or None, os.environ['HARMLESS'])"
    engine.launch(KEY, marked(mark, code), ())
    ended(engine)
    assert texts(root) == ["None kept"]
    assert (folder(root) / "plan.json").stat().st_mode & 0o077 == 0


def test_the_order_to_stop_reaches_no_stranger_with_the_runner_s_pid(root):
    """The records name this very process, started at another time: it would die of the signal."""
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append(True))
    try:
        folder(root).mkdir(parents=True)
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        began = Began(pid=os.getpid(), start_ticks=1, boot_id=boot_id)
        append(str(folder(root) / "records.jsonl"), began, durably=False)
        engine_at(root).stop(KEY, order(0.0))
        assert not heard
    finally:
        signal.signal(signal.SIGTERM, before)
    until(engine_at(root), Phase.LOST)


def test_an_emulating_node_gives_no_gpus_and_the_log_says_so(root, mark):
    code = "import os; print(repr(os.environ['CUDA_VISIBLE_DEVICES']))"
    replicas = [
        python_replica(Role.PRIMARY, 0, code),
        *(
            python_replica(Role.WORKER, i, "", gpu_count=4, gpu_type="NVIDIA_TESLA_T4")
            for i in range(2)
        ),
    ]
    device = GpuDevice(uuid="GPU-1", name="Tesla T4")
    engine = engine_at(root, policy=FleetPolicy.EMULATE, find_gpus=lambda: (device,))
    engine.launch(KEY, plan_of(replicas, mark), ())
    ended(engine)
    assert texts(root) == ["''"]
    assert texts(root, "service") == [
        (
            "Each worker replica asked for 4 NVIDIA_TESLA_T4; this machine emulates: it runs on "
            "the CPU, without GPUs."
        )
    ]


def test_the_node_is_this_machine_and_its_policy_follows_from_its_gpus(root):
    (bare,) = engine_at(root, node_name="here").fleet()
    assert (bare.name, bare.policy, bare.region) == ("here", FleetPolicy.EMULATE, None)
    assert bare.slots == max(32, 8 * len(os.sched_getaffinity(0)))
    names = ("Tesla T4", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB", "NVIDIA H200", "NV X-1")
    devices = tuple(GpuDevice(uuid=name, name=name) for name in names)
    (node,) = engine_at(root, find_gpus=lambda: devices, slots=3, gpu_alias={"A": "any"}).fleet()
    assert node.policy is FleetPolicy.BEST_EFFORT
    assert node.gpus == {
        "NVIDIA_TESLA_T4": 1,
        "NVIDIA_A100_80GB": 1,
        "NVIDIA_TESLA_A100": 1,
        "NVIDIA_H200_141GB": 1,
        "NVIDIA_NV_X_1": 1,
    }
    assert (node.slots, node.gpu_alias) == (3, {"A": "any"})


def test_an_attempt_runs_in_a_folder_of_its_own(root, mark):
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, "import os; print(os.getcwd())"), ())
    ended(engine)
    assert texts(root) == [str(folder(root) / "work")]
    assert record(root, "Ended")["outcome"]["exit_code"] == 0
