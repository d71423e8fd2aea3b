"""Starts a small Slurm cluster and a server on it, and submits jobs to it by other programs.

A side of the benchmark is a way to submit: the server, sbatch, srun, submitit or TorchX.  Each task
of a job writes its start time to a file in a folder that all nodes share.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT
from benchmarks.service.servers import Server, local

CLUSTER = ROOT / "tests" / "slurm" / "cluster.py"
IMAGE = "registry.test/bench:1"
JOBS = "/v1/projects/benchmark/locations/us-central1/customJobs"
WAIT_S_MAX = 90.0
#: Writes its start time, and waits for a file if one is named, or for some seconds.
PROGRAM = """\
import os, sys, time
now = time.time()
name = os.path.join(sys.argv[1], str(os.getpid()) + "-" + os.uname().nodename + "-" + str(now))
with open(name + ".new", "w") as file:
    file.write(repr(now))
os.rename(name + ".new", name)
if len(sys.argv) > 3:
    time.sleep(float(sys.argv[3]))
while len(sys.argv) == 3 and not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
"""
SUBMITIT = """\
import sys, submitit

def task(argv):
    import subprocess
    subprocess.run(argv, check=True)

executor = submitit.AutoExecutor(folder=sys.argv[1], cluster="slurm")
executor.update_parameters(timeout_min=5, mem_gb=1, cpus_per_task=1)
executor.submit(task, sys.argv[2:])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster, and the program that its jobs run."""

    folder: Path
    program: Path

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables with which programs find Slurm's commands."""
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def command(self, *words: str) -> str:
        """Return the output of a command of Slurm."""
        path = str(self.folder / "bin" / words[0])
        done = subprocess.run([path, *words[1:]], check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.stderr}")
        return done.stdout

    def make_folder(self) -> Path:
        """Make a new folder for the start times of tasks."""
        return Path(tempfile.mkdtemp(dir=self.folder / "shared"))

    def script(self, steps: str) -> str:
        """Write a batch script and return its path."""
        path = self.make_folder() / "batch.sh"
        path.write_text(f"#!/bin/sh\n{steps}\n")
        return str(path)

    def idle(self) -> None:
        """Wait until the cluster is idle, so that the next job starts at once."""
        wait_until(lambda: not self.command("squeue", "-h"), "the queue is empty")
        wait_until(
            lambda: set(self.command("sinfo", "-h", "-N", "-o", "%T").split()) == {"idle"},
            "all nodes are idle",
        )


@dataclass(frozen=True, slots=True)
class Caller:
    """Opens a connection for each request, because the server closes idle connections."""

    server: Server

    def call(self, verb: str, path: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and return the JSON document of the answer."""
        with self.server.client() as client:
            return client.call(verb, path, document)


def wait_until(
    is_so: Callable[[], object], what: str, seconds: float = WAIT_S_MAX, pause_s: float = 0.02
) -> None:
    """Poll with pauses until ``is_so`` is true.  Raises SystemExit after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {seconds:g} s, but not true yet: {what}")
        time.sleep(pause_s)


def moments(folder: Path, count: int, seconds: float = WAIT_S_MAX) -> list[float]:
    """Wait until ``count`` tasks have begun; return their start times in order."""

    def list_marks() -> list[Path]:
        return [path for path in folder.iterdir() if path.suffix != ".new"]

    wait_until(lambda: len(list_marks()) >= count, f"{count} tasks have begun", seconds)
    return sorted(float(path.read_text()) for path in list_marks())


@contextlib.contextmanager
def cluster(*flags: str) -> Iterator[Cluster]:
    """Start a cluster of the tests, and stop it at the end of the ``with`` block."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder, "where")
        child = subprocess.Popen([sys.executable, str(CLUSTER), str(where), *flags])
        try:
            wait_until(lambda: where.exists() or child.poll() is not None, "the cluster is up")
            if not where.exists():
                raise SystemExit("the cluster did not start; see its messages above")
            at = Path(where.read_text().strip())
            program = at / "shared" / "program.py"
            program.write_text(PROGRAM)
            (at / "shared" / "spool").mkdir()
            yield Cluster(folder=at, program=program)
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait()


def configuration(at: Cluster) -> str:
    """Return the config.toml of a server whose only engine is the cluster."""
    return f"""\
[[engine]]
name = "cluster"
kind = "slurm"
spool = "{at.folder}/shared/spool"
commands = "{at.folder}/bin"
python = "{sys.executable}"

[engine.environments]
bench = "{sys.executable}"

[[environment]]
name = "bench"
python = "{sys.executable}"

[[image]]
image = "registry.test/*"
environment = "bench"
"""


@contextlib.contextmanager
def server_on(at: Cluster) -> Iterator[Server]:
    """Start a Trainshed server whose engine is the cluster."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.toml").write_text(configuration(at))
        with local(Path(folder)) as server:
            yield server


def a_job(at: Cluster, folder: Path, count: int, *more: str) -> dict[str, object]:
    """Return a job of ``count`` replicas, each of which writes its start time."""
    return job_of([sys.executable, str(at.program), str(folder), *more], count)


def job_of(argv: Sequence[str], count: int) -> dict[str, object]:
    """Return a job of ``count`` replicas that run a command."""
    spec = {"imageUri": IMAGE, "command": list(argv)}
    machine = {"machineType": "n1-standard-4"}
    pools = [
        {"machineSpec": machine, "replicaCount": str(replicas), "containerSpec": spec}
        for replicas in (1, count - 1)
        if replicas
    ]
    return {"displayName": "bench", "jobSpec": {"workerPoolSpecs": pools}}


def submit(client: Caller, document: dict[str, object]) -> str:
    """Submit a job and return its name."""
    return str(client.call("POST", JOBS, document)["name"])


def state(client: Caller, name: str) -> str:
    """Return the state of a job without its prefix JOB_STATE_."""
    return str(client.call("GET", f"/v1/{name}")["state"]).removeprefix("JOB_STATE_")


def await_state(client: Caller, name: str, *states: str) -> float:
    """Wait until a job has one of the states; return the time."""
    wait_until(lambda: state(client, name) in states, f"{name} is {states}")
    return time.time()


def plain_sbatch(at: Cluster, folder: Path, count: int, *more: str) -> None:
    """Submit the script that a user would write by hand; ``more`` are arguments of the program."""
    run = shlex.join(["exec", sys.executable, str(at.program), str(folder), *more])
    steps = f"srun {run.removeprefix('exec ')}" if count > 1 else run
    flags = ("--parsable", f"-N{count}", "-c4", "--mem=15360", "--output=/dev/null")
    at.command("sbatch", *flags, at.script(steps))


def plain_srun(at: Cluster, folder: Path, count: int) -> None:
    """Run the program with srun, as a user does in a terminal."""
    at.command("srun", f"-N{count}", f"-n{count}", sys.executable, str(at.program), str(folder))


def installed(folder: Path, package: str) -> Path | None:
    """Install a package into an environment and return its Python; None if that fails."""
    python = folder / package / "bin" / "python"
    if not python.exists():
        venv.create(folder / package, with_pip=True)
    words = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", package)
    done = subprocess.run([python, *words], check=False, capture_output=True)
    return None if done.returncode else python


def by_submitit(python: Path, at: Cluster, folder: Path) -> None:
    """Submit a function that starts the program, with submitit."""
    argv = [sys.executable, str(at.program), str(folder)]
    _run_in(at, [str(python), "-c", SUBMITIT, str(at.folder / "shared" / "submitit"), *argv])


def by_torchx(python: Path, at: Cluster, folder: Path) -> None:
    """Submit the program with TorchX; ignore its exit status.

    The status comes from Slurm's accounting, which the cluster does not have.
    """
    argv = [sys.executable, str(at.program), str(folder)]
    flags = ["--workspace", "", "--scheduler", "slurm", "-cfg", f"job_dir={at.make_folder()}"]
    words = ["utils.sh", "--cpu", "1", "--memMB", "1000", *argv]
    _run_in(at, [str(python.parent / "torchx"), "run", *flags, *words], may_fail=True)


def _run_in(at: Cluster, argv: Sequence[str], *, may_fail: bool = False) -> None:
    done = subprocess.run(
        argv, env=dict(at.environ), check=False, capture_output=True, text=True, cwd=at.folder
    )
    if done.returncode and not may_fail:
        raise SystemExit(f"{argv[0]}: {done.stderr[-2000:]}")
