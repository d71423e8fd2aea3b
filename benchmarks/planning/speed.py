"""G15: the time of plans and of short runs.

    python -m benchmarks planning-speed [--times 7] [--skip-calibration]

A plan of twelve what-ifs is compared with Python's own start; the runs A, B and C of the digits
trainer are timed whole.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.harness import ROOT, TRAINSHED, Benchmark, Goal, Report, at_most
from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.calibration_file import written
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.training import Training

DIGITS: Final = ROOT / "examples" / "torch-reduction"
TWELVE: Final = "gpus=8,16,24,32,40,48,56,64,72,80,88,96"
PLAN_S: Final = 0.3
CALIBRATION_S: Final = 60.0


def measure(args: argparse.Namespace) -> Report:
    """Plans, and unless left out a calibration."""
    report = Report(goals=[plans(args.times)])
    if args.skip_calibration or args.dry:
        report.left_out["runs A, B and C"] = "a minute's work" if args.dry else "as asked"
    else:
        report.goals.append(calibration())
    return report


def plans(times: int) -> Goal:
    """Measure twelve what-ifs without Python's start, in wall and processor seconds."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "calibration.toml")
        file.write_text(text())
        words = ["plan", "--calibration", str(file), "--what-if", TWELVE, "--reducers", "0"]
        plan = fastest([TRAINSHED, *words], times)
    bare = fastest([sys.executable, "-c", "pass"], times)
    return at_most("12 what-ifs over Python's start", plan - bare, PLAN_S, "s")


def text() -> str:
    """A calibration of eight GPUs a host."""
    training = Training(
        model="resnet50",
        parameters=25.6e6,
        gradient_bytes=102e6,
        batch_per_accelerator=128,
        stack="torch 2.13.0",
    )
    host = HostKind(accelerator="NVIDIA_TESLA_V100", per_host=8, cpus=64, network_gbps=25)
    runs = [
        Run(kind=RunKind.COMPUTE, steps=100, step_s=0.35),
        Run(kind=RunKind.HOST, accelerators=8, steps=100, step_s=0.38),
    ]
    return written(calibrated(training, host, runs))


def fastest(argv: list[str], times: int) -> float:
    """Return the smallest seconds of several runs: other load only adds to them."""
    return min(taken(argv) for _ in range(times))


def taken(argv: list[str], cwd: Path = ROOT) -> float:
    """Seconds of a command, compiled as installers leave it.  Raises CalledProcessError."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.monotonic()
    subprocess.run(argv, check=True, capture_output=True, cwd=cwd, env=env)
    return time.monotonic() - began


def calibration() -> Goal:
    """The runs A, B and C of the digits trainer, with all that is around them."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["--module-name", "trainer.task", "--package-path", "trainer", "--runs", "A,B,C"]
        out = ["--processes", "2", "--batch", "24", "--out", f"{folder}/calibration.toml"]
        argv = [TRAINSHED, "plan", "calibrate", *words, *out]
        seconds = taken([*argv, "--", "--epochs", "1000", "--batch-size", "24"], DIGITS)
    return at_most("runs A, B and C", seconds, CALIBRATION_S, "s")


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={"times": (7, 1)},
    add_options=lambda parser: parser.add_argument("--skip-calibration", action="store_true"),
)
