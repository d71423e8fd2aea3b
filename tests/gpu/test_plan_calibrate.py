"""``trainshed plan calibrate`` of a ResNet and a transformer: by one path on GPUs and on CPUs."""

from pathlib import Path

import pytest

from examples.cluster import call, needs
from trainshed.planning.scaling.calibration_file import read

PROGRAM = Path(__file__).parent / "programs" / "calibrated.py"
TINY = ("--width", 8, "--batch-size", 2, "--image-size", 8)
REAL = ("--batch-size", 64, "--precision", "bf16")
pytestmark = [pytest.mark.slow, pytest.mark.full, needs("torch")]


@pytest.mark.parametrize("model", ["resnet", "transformer"])
def test_all_runs_of_a_host_are_measured_and_planned_with(model, torch_device, tmp_path):
    out, count = tmp_path / "calibration.toml", accelerators(torch_device)
    sizes = REAL if torch_device == "cuda" else TINY
    words = ("--runs", "A,B,C,D" if count > 1 else "A,B", "--seconds", 20, "--out", out)
    how = ("--gpus" if torch_device == "cuda" else "--processes", count)
    outcome = call("gpu-check", "plan", "calibrate", "--script", PROGRAM, *words, *how, "--",
                "--model", model, *sizes)  # fmt: skip
    assert outcome.code == 0, outcome.story()
    calibration = read(out.read_text())
    runs = {run.kind.value: run for run in calibration.runs}
    assert list(runs) == (["A", "B", "C", "D"] if count > 1 else ["A", "B"]), outcome.story()
    assert calibration.training.parameters > 0, "the hooks have counted them"
    assert calibration.training.micro_batches == 1
    assert 0 < calibration.training.state_bytes < runs["A"].memory_bytes
    assert calibration.training.batch_per_accelerator == (64 if torch_device == "cuda" else 2)
    assert calibration.host.accelerator != "CPU" or torch_device == "cpu"
    planned = call("gpu-check", "plan", "--calibration", out, "--what-if", f"gpus={count}")
    assert planned.code == 0, planned.story()
    assert "samples" in planned.text.lower()


def accelerators(device):
    """Processes on two CPUs; all GPUs that there are."""
    if device == "cpu":
        return 2
    import torch  # noqa: PLC0415 - only where there is one

    return torch.cuda.device_count()
