"""A trainer is measured as it is; what cannot be is said in a sentence, and nothing is left."""

import json
import tempfile
from pathlib import Path

import pytest

from trainshed.cli.main import main
from trainshed.planning.scaling.calibration import RunKind
from trainshed.planning.scaling.calibration_file import read

STEPS = """\
import time
for step in range(3000):
    print(f"step {step}", flush=True)
    time.sleep(0.004)
"""
LIBRARY = """\
import time
from trainshed_trainer import progress
for step in range(3000):
    progress(step)
    time.sleep(0.004)
"""
PATTERN = ("--step-pattern", "step (?P<step>[0-9]+)")


@pytest.fixture
def calibrate(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "tmp").mkdir()

    def run(program, *flags):
        Path("task.py").write_text(program)
        quick = ("--seconds", "1", "--start-seconds", "20", "--format", "json")
        code = main(["plan", "calibrate", "--script", "task.py", *quick, *flags])
        said = capsys.readouterr()
        assert list((tmp_path / "tmp").iterdir()) == []
        return code, said.out, said.err

    return run


def test_steps_are_seen_by_the_lines_that_tell_them(calibrate):
    model = ("--batch", "32", "--params", "1e6", "--stream-gbps", "0.19")
    code, out, _ = calibrate(STEPS, *PATTERN, *model, "--runs", "A")
    assert code == 0
    made = read(Path("calibration.toml").read_text())
    assert [run.link_bytes for run in made.of(RunKind.LINK)] == [pytest.approx(23.75e6)]
    (run,) = made.of(RunKind.COMPUTE)
    assert run.step_s >= 0.004
    assert made.training.gradient_bytes == 4e6
    assert made.fitted.values["compute_s"] > 0
    assert json.loads(out)["sentences"][0].startswith("One does ")


def test_steps_are_seen_by_the_trainer_library(calibrate):
    code, _, _ = calibrate(LIBRARY, "--processes", "2", "--runs", "A,C")
    made = read(Path("calibration.toml").read_text())
    assert code == 0
    assert [(run.kind.value, run.accelerators) for run in made.runs] == [("A", 1), ("C", 2)]


@pytest.mark.parametrize(
    ("program", "flags", "said"),
    [
        ("print('hello')", (), "run A reported no steps"),
        ("raise SystemExit(3)", (), "run A failed"),
        ("for step in range(3): print('step', step)", PATTERN, "took 2 steps after its first"),
        (STEPS, (*PATTERN, "--gpus", "1000"), "run the same command on a machine that has it"),
        (STEPS, (*PATTERN, "--processes", "0"), "--processes 0: from 1 to"),
        (STEPS, (*PATTERN, "--runs", "A,X"), "--runs X: of A, B, C, D"),
        (STEPS, (*PATTERN, "--runs", "C"), "--runs C needs several"),
        (STEPS, ("--step-pattern", "step ("), "is no regular expression"),
        (STEPS, ("--step-pattern", "step [0-9]+"), "has no group named step"),
        (STEPS, (*PATTERN, "--batch", "0"), "--batch: '0' is not a number above 0"),
    ],
    ids=lambda value: None if isinstance(value, str) and "\n" in value else str(value)[:30],
)
def test_what_cannot_be_measured_is_a_sentence(calibrate, program, flags, said):
    code, _, err = calibrate(program, "--runs", "A", *flags)
    assert code
    assert said in err
    assert "Traceback" not in err
    assert not Path("calibration.toml").exists()


def test_a_trainer_that_hangs_is_ended(calibrate):
    code, _, err = calibrate("import time; time.sleep(600)", "--start-seconds", "0.5")
    assert code
    assert "run A reported no steps (its time is over)" in err


def test_half_the_batch_is_a_run_of_its_own(calibrate):
    flags = (*PATTERN, "--batch", "32", "--batch-flag=--size", "--runs", "A")
    program = "import sys; print(sys.argv)\n" + STEPS
    code, _, err = calibrate(program, *flags)
    assert code == 0, err
    made = read(Path("calibration.toml").read_text())
    assert [run.batch_per_accelerator for run in made.runs] == [32.0, 16.0]
    assert "--size=16" in err


def test_a_run_that_fails_shows_what_it_wrote_last(calibrate):
    code, _, err = calibrate("raise SystemExit('no data here')")
    assert code
    assert "no data here" in err
