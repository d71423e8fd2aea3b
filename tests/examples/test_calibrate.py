"""The examples' trainers are measured as they are: their frameworks' steps are seen by hooks."""

import pytest

from examples.cluster import call, needs
from trainshed.planning.scaling.calibration_file import read

RUNS = {
    "torch-ddp": ("A,C,D", "torch", 48),
    "lightning-resume": ("A", "lightning", 32),
    "keras-resume": ("A,B", "keras", 32),
}
pytestmark = [pytest.mark.slow, pytest.mark.full]


@pytest.mark.parametrize(
    "example",
    [pytest.param(name, marks=needs(module)) for name, (_, module, _) in RUNS.items()],
)
def test_an_examples_steps_and_samples_are_found(example, tmp_path):
    runs, _, batch = RUNS[example]
    out = tmp_path / "found.toml"
    program = ("--module-name", "trainer.task", "--package-path", "trainer")
    flags = ("--processes", 2, "--runs", runs, "--seconds", 2, "--out", out)
    outcome = call(example, "plan", "calibrate", *program, *flags)
    assert outcome.code == 0, outcome.story()
    calibration = read(out.read_text())
    assert [run.kind.value for run in calibration.runs] == runs.split(","), outcome.story()
    assert calibration.training.batch_per_accelerator == batch
    assert calibration.training.gradient_bytes > 0
    assert calibration.trainer_digest
