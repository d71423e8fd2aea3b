"""G15: the time of plans and short runs, and the cost of the planner for other commands.

    python -m benchmarks planning-speed [--times 7] [--skip-calibration]

A plan of twelve what-ifs is compared with Python's own start; the runs A, B and C of the digits
trainer are timed whole; and of the server's imports the planner's own are counted, each in a
process of its own.  Of a submit that part is timed that hands the job over for its note; notes rest
a hundred times as long as they work.
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
from trainshed.config import ImageMapping
from trainshed.engines.container_runtime import RuntimeChoice
from trainshed.model.job import JobSpec
from trainshed.model.resource_names import JobUid, ProjectId
from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.calibration_file import written
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.training import Training
from trainshed.service.jobs.job_service import JobService
from trainshed.service.jobs.submission import SubmitRules
from trainshed.service.learning.plan_notes import PlanNotes
from trainshed.service.starts.images import Images
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import JobKind

DIGITS: Final = ROOT / "examples" / "torch-reduction"
TWELVE: Final = "gpus=8,16,24,32,40,48,56,64,72,80,88,96"
PLAN_S: Final = 0.3
CALIBRATION_S: Final = 60.0
SERVER_MB: Final = 1.0
SUBMIT_PERCENT: Final = 1.0
#: What a server imports but for the planner comes first, then the planner: its memory, MB.
GROWTH: Final = """
import importlib, sys
def resident():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
for name in {others}:
    importlib.import_module(name)
before = resident()
for name in {ours}:
    importlib.import_module(name)
print(resident() - before)
"""
LOADED: Final = """
import sys, trainshed.cli.admin.server
print(*(name for name in sys.modules if sys.modules[name] is not None))
"""


def measure(args: argparse.Namespace) -> Report:
    """Plans, server, submit, and unless left out a calibration."""
    report = Report(goals=[plans(args.times), server(args.times), submit(args.submits)])
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


def said(code: str) -> str:
    """Return the output of a Python program."""
    argv = [sys.executable, "-c", code]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def server(times: int) -> Goal:
    """Memory of the planner's modules that a server imports."""
    names = said(LOADED).split()
    ours = [name for name in names if name.startswith("trainshed.planning.scaling")]
    free = [name for name in names if name.startswith("trainshed.model")]
    stdlib = [
        name for name in names if name.split(".")[0] in sys.stdlib_module_names - {"__main__"}
    ]
    code = GROWTH.format(others=stdlib + free, ours=ours)
    grown_mb = min(float(said(code)) for _ in range(min(3, times)))
    return at_most(f"{len(ours)} modules of the planner in a server", grown_mb, SERVER_MB, "MB")


def submit(count: int) -> Goal:
    """Measure the time that plan notes add to submits."""
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": 1,
        "containerSpec": {"imageUri": "registry.test/a"},
    }
    mapped = (ImageMapping(environment="default", image="registry.test/*", entrypoint=("true",)),)
    runtime = RuntimeChoice(None, "none")
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/jobs.db")
        notes, spent = PlanNotes(store=store, make=lambda: lambda _: None), 0.0

        def noted(uid: JobUid, project: str, spec: JobSpec) -> None:
            nonlocal spent
            began = time.perf_counter()
            notes.add(uid, project, spec)
            spent += time.perf_counter() - began

        rules = SubmitRules(images=Images((), mapped, sys.executable, runtime), noted=noted)
        jobs = JobService(store, rules, lambda: None)
        began = time.perf_counter()
        for _ in range(count):
            document = {"displayName": "a", "jobSpec": {"workerPoolSpecs": [pool]}}
            jobs.create(JobKind.CUSTOM_JOB, ProjectId("p"), "us-central1", document, creator="me")
        whole = time.perf_counter() - began
        store.close()
    return at_most("of a submit for its note", 100 * spent / whole, SUBMIT_PERCENT, "%")


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
    sizes={"times": (7, 1), "submits": (300, 3)},
    add_options=lambda parser: parser.add_argument("--skip-calibration", action="store_true"),
)
