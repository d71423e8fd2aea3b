import pytest

from trainshed.engines.local.devices.gpus import GpuDevice

#: A trainer as users write it: it takes a GPU if it sees one.
STEPS = """
import json, os
device = "cpu" if os.environ.get("CUDA_VISIBLE_DEVICES") == "" else "cuda"
print("warming up")
print(json.dumps({"device": device, "seconds": {"cpu": 6.0, "cuda": %s}[device]}))
"""


@pytest.fixture
def machine(monkeypatch):
    """A machine with so many GPUs, as far as NVML says."""

    def having(count):
        gpus = tuple(GpuDevice(uuid=f"GPU-{i}", name="Test GPU") for i in range(count))
        monkeypatch.setattr("trainshed.cli.check.gpu_check.list_gpus", lambda: gpus)

    return having


@pytest.fixture
def steps(tmp_path):
    def write(gpu_seconds):
        (tmp_path / "steps.py").write_text(STEPS % gpu_seconds)

    return write


def test_without_a_gpu_the_answer_is_the_cpus_figure_and_what_it_is_worth(
    trainshed, machine, steps
):
    machine(0)
    steps(1.0)
    run = trainshed("gpu-check", "--module-name", "steps", "--", "--steps", "20")
    assert run.code == 0
    assert "This machine has no GPU" in run.out
    answer = trainshed("gpu-check", "--module-name", "steps", "--format", "json").json
    assert (answer["cpu_seconds"], answer["gpu_seconds"], answer["speedup"]) == (6.0, None, None)


@pytest.mark.parametrize(
    ("gpu_seconds", "message"),
    [(2.0, "less than 3 times as much"), (5.0, "A GPU is not worth its price: it is 1.2 times")],
)
def test_with_a_gpu_the_answer_says_whether_it_pays(
    trainshed, machine, steps, gpu_seconds, message
):
    machine(1)
    steps(gpu_seconds)
    run = trainshed("gpu-check", "--module-name", "steps")
    assert run.code == 0
    assert message in run.out
    assert "Test GPU" in run.out


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("print('done')", 'printed no line of JSON with "seconds"'),
        ("raise SystemExit(3)", "the run on 1 x CPU failed"),
    ],
)
def test_a_run_that_gives_no_figure_is_a_failure(trainshed, machine, tmp_path, code, message):
    machine(0)
    (tmp_path / "steps.py").write_text(code)
    run = trainshed("gpu-check", "--module-name", "steps")
    assert run.code == 1
    assert message in run.err


def test_the_device_is_ours_to_choose(trainshed):
    flag = ("--device-flag=--device",)
    run = trainshed("gpu-check", "--module-name", "steps", *flag, "--", "--device", "cpu")
    assert run.code == 2
    assert "leave it out after --" in run.err


def test_prices_say_which_device_a_sample_is_cheaper_on(trainshed, machine, steps):
    machine(1)
    steps(2.0)
    prices = ("--cpu-price", "1", "--gpu-price", "2.5")
    run = trainshed("gpu-check", "--module-name", "steps", *prices)
    assert "a sample costs 0.833" in run.out
    assert "one GPU is cheapest" in run.out
    assert "It breaks even at 3 per hour" in run.out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--cpu-price", "0", "--gpu-price", "1"), "must be a number above 0, got '0'"),
        (("--cpu-price", "1"), "--gpu-price is missing"),
        (("--accelerator", "NVIDIA_TESLA_V100"), "must be a GPU of this machine (Test GPU)"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_runs(
    trainshed, machine, flags, message
):
    machine(1)
    run = trainshed("gpu-check", "--module-name", "steps", *flags)
    assert run.code == 2
    assert message in run.err


SEEN = """
import os, sys, time
from trainshed_trainer import progress
device = sys.argv[-1].partition("--device=")[2]
for step in range(40):
    time.sleep({"cpu": 0.02, "cuda": 0.005}[device])
    progress(step=step)
"""


def test_steps_that_are_seen_give_the_ratio_an_interval(trainshed, machine, tmp_path):
    machine(1)
    (tmp_path / "steps.py").write_text(SEEN)
    flag = ("--device-flag=--device",)
    run = trainshed("gpu-check", "--module-name", "steps", *flag, "--format", "json")
    assert run.code == 0, run.err
    (one,) = run.json["speedups"]
    assert one["low"] < one["point"] < one["high"]
    assert one["gpus"] == 1


STAYS = """
import time
from trainshed_trainer import steps
times = steps.step_times()
times.describe(device="cpu")
for step in range(40):
    time.sleep(0.005)
    times.note(step)
"""


def test_a_trainer_that_leaves_the_gpu_idle_is_said(trainshed, machine, tmp_path):
    machine(1)
    (tmp_path / "steps.py").write_text(STAYS)
    run = trainshed("gpu-check", "--module-name", "steps")
    assert run.code == 1
    assert "the trainer did not use the Test GPU" in run.err
    assert "--device-flag" in run.err
