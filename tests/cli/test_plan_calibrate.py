"""A trainer is measured as it is; what cannot be is said in a sentence, and nothing is left."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from engines.support import wait_until
from trainshed.cli.main import main
from trainshed.cli.plan.plan_calibrate import sentences
from trainshed.planning.scaling import rates
from trainshed.planning.scaling.calibration import Calibration, Run, RunKind
from trainshed.planning.scaling.calibration_file import read, written
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.training import Training
from trainshed.workbench.calibrate_request import PRECISIONS
from trainshed.workbench.trainer_digest import trainer_digest

STEPS = """\
import time
open("began", "w").close()
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
DIES = """\
import time
for step in range(15):
    print(f"step {step}", flush=True)
    time.sleep(0.004)
raise SystemExit(1)
"""
AT_ONCE = """\
import sys
sys.stdout.write("".join(f"step {step}\\n" for step in range(30)))
"""
SAYING = """\
import time
for step in range(30):
    print("step", {step}, flush=True)
    time.sleep(0.004)
"""
PATTERN = ("--step-pattern", "step (?P<step>[0-9]+)")
WORDS = ("--step-pattern", "step (?P<step>.+)")


@pytest.fixture
def calibrate(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "tmp").mkdir()

    def run(program, *flags):
        """Measure ``task.py`` with this text; None: the job of a file in the flags."""
        if program is not None:
            Path("task.py").write_text(program)
            flags = ("--script", "task.py", *flags)
        quick = ("--seconds", "1", "--start-seconds", "20", "--format", "json")
        code = main(["plan", "calibrate", *quick, *flags])
        captured = capsys.readouterr()
        assert list((tmp_path / "tmp").iterdir()) == []
        return code, captured.out, captured.err

    return run


def test_steps_are_seen_by_the_lines_that_tell_them(calibrate):
    model = ("--batch", "32", "--accumulation", "4", "--params", "1e6", "--stream-gbps", "0.19")
    code, out, _ = calibrate(STEPS, *PATTERN, *model, "--runs", "A")
    assert code == 0
    calibration = read(Path("calibration.toml").read_text())
    assert [run.link_bytes for run in calibration.of(RunKind.LINK)] == [pytest.approx(23.75e6)]
    (run,) = calibration.of(RunKind.COMPUTE)
    assert run.steps >= 1
    assert (run.micro_batches, calibration.training.micro_batches) == (4, 4)
    assert "A step has 4 micro batches of 8 samples." in json.loads(out)["sentences"]
    assert run.step_s > 0  # how long it is: tests/workbench/test_step_lines.py
    assert calibration.training.gradient_bytes == 4e6
    assert calibration.fitted.values["compute_s"] > 0
    assert json.loads(out)["sentences"][0].startswith("One process does ")


@pytest.mark.parametrize("is_custom", [True, False], ids=["custom job", "AI Platform"])
def test_the_program_of_a_job_file_is_measured_without_its_other_machines(calibrate, is_custom):
    machine = {"machineType": "n1-standard-4"}
    image = {"imageUri": "registry.example/mine:1", "command": ["python", "-m", "trainer"]}
    pool = {"machineSpec": machine, "containerSpec": image}
    job = {"workerPoolSpecs": [{**pool, "replicaCount": 1}, {**pool, "replicaCount": 3}]}
    if not is_custom:
        job = {
            "trainingInput": {
                "scaleTier": "CUSTOM",
                "masterType": "n1-standard-4",
                "workerType": "n1-standard-4",
                "workerCount": 3,
                "pythonModule": "trainer",
                "runtimeVersion": "2.11",
                "pythonVersion": "3.7",
                "region": "us-central1",
            }
        }
    Path("job.json").write_text(json.dumps(job))
    Path("trainer.py").write_text(STEPS)
    code, _, err = calibrate(None, "job.json", *PATTERN, "--batch", "8", "--runs", "A")
    assert code == 0, err
    calibration = read(Path("calibration.toml").read_text())
    assert [(run.accelerators, run.hosts) for run in calibration.runs] == [(1, 1)]
    assert calibration.training.model == "trainer"
    assert calibration.trainer_digest == trainer_digest([Path("trainer.py")])


def test_steps_are_seen_by_the_trainer_library(calibrate):
    flags = ("--processes", "2", "--runs", "A,C", "--machine-type", "n1-standard-4")
    code, _, _ = calibrate(LIBRARY, *flags)
    calibration = read(Path("calibration.toml").read_text())
    assert code == 0
    assert [(run.kind.value, run.accelerators) for run in calibration.runs] == [("A", 1), ("C", 2)]
    assert all(1e6 < run.memory_bytes < 15 * 2**30 for run in calibration.runs)
    assert calibration.host.memory_bytes == 15 * 2**30


@pytest.mark.parametrize(
    ("program", "flags", "message"),
    [
        ("print('hello')", (), "run A reported no steps"),
        ("raise SystemExit(3)", (), "run A failed"),
        (DIES, (*PATTERN, "--seconds", "20"), "run A failed: workerpool0-0 exited with code 1"),
        (LIBRARY.replace("3000", "3"), (), "took 2 steps after its first"),
        (AT_ONCE, PATTERN, "30 lines match --step-pattern, and they arrived all at once"),
        (SAYING.format(step=7), PATTERN, "30 lines match --step-pattern, and no step is larger"),
        (SAYING.format(step="100 - step"), PATTERN, "30 lines match --step-pattern, and no step"),
        (SAYING.format(step="'one'"), WORDS, "their step is not a whole number, such as 'one'"),
        ("print('hello')", PATTERN, "no line matches --step-pattern"),
        (
            "open('task.py', 'a').write('#')\n" + STEPS,
            PATTERN,
            "the trainer changed during its calibration",
        ),
    ],
    ids=lambda value: None if isinstance(value, str) and "\n" in value else str(value)[:30],
)
def test_what_cannot_be_known_of_a_trainer_is_a_sentence(calibrate, program, flags, message):
    code, _, err = calibrate(program, "--runs", "A", *flags)
    assert message in err
    assert code == 3
    assert "Traceback" not in err
    assert not Path("calibration.toml").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--gpus", "1000"), "run the command on a machine that has them"),
        (("--gpus", "0"), "--gpus: must be a whole number from 1 to 1000000, got '0'"),
        (("--batch-flag", "--size"), "begins with -, write --batch-flag=VALUE"),
        (("--processes", "0"), "--processes: must be a whole number from 1 to"),
        (("--processes", "100000"), "--processes must be from 1 to"),
        (("--runs", "A,X"), "--runs must be letters of A, B, C, D"),
        (("--runs", "C"), "--runs C needs several"),
        (("--runs", "B"), "--runs must contain A or C, got B"),
        (("--runs", "D", "--processes", "2"), "--runs must contain A or C, got D"),
        (("--runs", "B,D", "--processes", "2"), "--runs must contain A or C, got B,D"),
        (("--step-pattern", "step ("), "must be a regular expression"),
        (("--step-pattern", "step [0-9]+"), "must have a group named step"),
        (("--batch", "0"), "--batch: must be a number above 0, got '0'"),
        (("--precision", "fp3"), "--precision: invalid choice: 'fp3' (choose from "),
        (
            ("--stream-gbps", "5", "--network-gbps", "1"),
            "--stream-gbps must be at most",
        ),
        (("--out", "."), "--out must be a file, got ."),
        (("--out", "/nosuch/x.toml"), "--out /nosuch/x.toml cannot be written: No such file or"),
        (("--out", "x" * 250), "cannot be written: the name is too long"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, tuple) else None,
)
def test_a_command_line_that_cannot_be_carried_out_runs_nothing(calibrate, flags, message):
    code, _, err = calibrate(STEPS, *PATTERN, *flags)
    assert message in err
    assert code == 2
    assert not Path("began").exists()
    assert sorted(path.name for path in Path().iterdir()) == ["task.py", "tmp"]


def test_what_is_no_file_is_not_replaced_by_one(calibrate):
    os.mkfifo("pipe")
    code, _, err = calibrate(STEPS, *PATTERN, "--out", "pipe")
    assert (code, Path("pipe").is_fifo()) == (2, True)
    assert "--out must be a file, got pipe" in err


def test_words_of_precision_are_those_that_the_planner_tells_apart():
    assert set(PRECISIONS) >= rates._HALVES


def test_a_trainer_that_hangs_is_ended(calibrate):
    code, _, err = calibrate("import time; time.sleep(600)", "--start-seconds", "0.5")
    assert code == 3
    assert "run A reported no steps (its time is over)" in err


@pytest.mark.parametrize(
    ("program", "flags"),
    [
        pytest.param(STEPS, PATTERN, marks=pytest.mark.full, id="lines"),
        pytest.param(LIBRARY, (), id="library"),
    ],
)
def test_whole_steps_are_not_taken_for_input(calibrate, program, flags):
    began = time.monotonic()
    longest = ("--batch", "8", "--start-seconds", "500")
    program = program.replace("3000", "10**9")
    code, out, err = calibrate(program, *flags, *longest, "--runs", "A,B")
    assert code == 0, err
    assert [run.kind.value for run in read(Path("calibration.toml").read_text()).runs] == ["A"]
    assert "run B read no batch" in err
    assert "Bound by input" not in out
    assert time.monotonic() - began < 200


def test_steps_whose_exchange_nobody_can_switch_off_are_not_called_free_of_it(calibrate):
    code, _, err = calibrate(LIBRARY, "--processes", "2", "--runs", "C,D")
    assert code == 0, err
    assert [run.kind.value for run in read(Path("calibration.toml").read_text()).runs] == ["C"]
    assert "run D is left out" in err


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.full),
        (signal.SIGTERM, 143),
    ],
)
def test_a_signal_ends_all_runs(tmp_path, number, code):
    (tmp_path / "task.py").write_text(STEPS.replace("step {step}", "hello"))
    words = ["plan", "calibrate", "--script", "task.py", "--runs", "A,B"]
    argv = [sys.executable, "-m", "trainshed.cli.main", *words]
    with subprocess.Popen(argv, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        wait_until((tmp_path / "began").exists, "the trainer has begun")
        process.send_signal(number)
        stderr = process.communicate()[1]
    assert process.returncode == code, stderr
    assert not (tmp_path / "calibration.toml").exists()


def test_steps_that_wait_are_called_bound_by_input_as_plans_call_them():
    run = Run(kind=RunKind.COMPUTE, step_s=0.1, wait_share=0.82, batch_per_accelerator=8)
    alone = Run(kind=RunKind.INPUT, samples_per_s=75.0)
    lines = list(sentences(Calibration(training=Training(), host=HostKind(), runs=(run,))))
    assert lines[1].startswith("Bound by input: steps wait for their input in 82 % of time.")
    quick = Run(kind=RunKind.COMPUTE, step_s=0.1, batch_per_accelerator=8)
    slow = Calibration(training=Training(), host=HostKind(), runs=(quick, alone))
    assert "the input pipeline alone takes 107 % of a step's time" in list(sentences(slow))[1]


def test_every_sentence_is_whole():
    kinds = {RunKind.COMPUTE: 1, RunKind.HOST: 4, RunKind.TWO_HOSTS: 8}
    runs = [
        Run(kind=kind, step_s=0.1, accelerators=count, batch_per_accelerator=8)
        for kind, count in kinds.items()
    ]
    fast_input = Run(kind=RunKind.INPUT, samples_per_s=10_000.0)
    calibration = Calibration(training=Training(), host=HostKind(), runs=(*runs, fast_input))
    lines = list(sentences(calibration))
    assert len(lines) >= 4
    assert all(line.endswith(".") for line in lines), lines


UNSTEADY = """\
import time
for step in range(100):
    print(f"step {step}", flush=True)
    time.sleep(0.003 if step % 4 else 0.09)
"""


def test_unsteady_steps_are_said_and_never_replace_better_ones(calibrate):
    Path("task.py").write_text(UNSTEADY)
    steady = Run(kind=RunKind.COMPUTE, steps=50, step_s=0.01, step_s_p10=0.009, step_s_p90=0.011)
    better = Calibration(
        training=Training(),
        host=HostKind(),
        runs=(steady,),
        trainer_digest=trainer_digest([Path("task.py")]),
    )
    Path("calibration.toml").write_text(written(better))
    code, _, err = calibrate(UNSTEADY, *PATTERN, "--runs", "A")
    assert code == 3
    assert "--out calibration.toml was not overwritten" in err
    assert "ms (P10 to P90): intervals are as wide." in err
    assert Path("calibration.toml").read_text() == written(better)


def test_large_figures_have_no_exponent():
    run = Run(kind=RunKind.COMPUTE, step_s=2.5, batch_per_accelerator=1e6, steps=9)
    lines = list(sentences(Calibration(training=Training(), host=HostKind(), runs=(run,))))
    assert lines[0] == "One process does 400,000 steps/s: a step takes 2,500 ms."


def test_unknown_links_are_said_to_make_ranges_of_plans():
    run = Run(kind=RunKind.COMPUTE, step_s=0.1)
    lines = list(sentences(Calibration(training=Training(), host=HostKind(), runs=(run,))))
    assert lines[-1].startswith("No link between hosts was measured: plans for several hosts are ")


def test_half_the_batch_is_a_run_of_its_own(calibrate):
    flags = (*PATTERN, "--batch", "32", "--batch-flag=--size", "--runs", "A")
    program = "import sys; print(sys.argv)\n" + STEPS
    code, out, err = calibrate(program, *flags, "--format", "text")
    assert code == 0, err
    assert out.endswith("\nnext: trainshed plan --calibration calibration.toml\n")
    calibration = read(Path("calibration.toml").read_text())
    assert [run.batch_per_accelerator for run in calibration.runs] == [32.0, 16.0]
    assert "--size=16" in err


def test_a_run_that_fails_shows_what_it_wrote_last(calibrate):
    code, _, err = calibrate("raise SystemExit('no data here')")
    assert code == 3
    assert "no data here" in err
