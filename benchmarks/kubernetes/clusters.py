"""Starts the emulated clusters of the tests in their own processes, and a server on a cluster."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import BIN, ROOT
from benchmarks.service.servers import Server, local

CLUSTER = ROOT / "tests" / "k8s" / "cluster.py"
PROJECT = "benchmark"
JOBS = f"/v1/projects/{PROJECT}/locations/us-central1/customJobs"
#: Where kubectl is searched: beside this interpreter first.
SEARCHED = os.pathsep.join((str(BIN), os.environ.get("PATH", "")))
LIVE, PAPER = "live", "paper"
WAIT_S_MAX = 120.0
POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster that answers, and the claim that its pods share with the server."""

    kubeconfig: Path
    spool: Path
    """The folder of the claim, as the server sees it."""
    claim: str
    namespace: str = "default"
    image: str
    folder: Path | None = None
    """The folder of an emulated cluster; None: a real cluster."""
    pid: int = 0
    """The process of an emulated cluster."""

    def kubectl(self, *words: str, text: str | None = None) -> str:
        """Run kubectl and return its output.  Raises SystemExit if it fails."""
        flags = ("--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace)
        env = {**os.environ, "PATH": SEARCHED}
        done = subprocess.run(
            ["kubectl", *flags, *words],
            check=False,
            capture_output=True,
            text=True,
            input=text,
            env=env,
        )
        if done.returncode:
            raise SystemExit(f"kubectl {' '.join(words)}: {done.stderr}")
        return done.stdout

    def expire(self) -> float:
        """Let the API refuse the versions of all watches; return the seconds until it is watched.

        Only a cluster on paper can do this.
        """
        answer = self._own("relisted.json")
        answer.unlink(missing_ok=True)
        subprocess.run(["kill", f"-{signal.SIGUSR1}", str(self.pid)], check=True)
        wait_until(answer.exists, "all kinds are watched again")
        return float(json.loads(answer.read_text())["seconds"])

    def attempt(self, name: str) -> Path:
        """Return the folder of the first attempt of a job, by the job's name."""
        (folder,) = self.spool.glob(f"*/jobs/{name.rpartition('/')[2]}/1")
        return folder

    def _own(self, name: str) -> Path:
        if self.folder is None:
            raise AssertionError("a real cluster has no folder")
        return self.folder / name


@dataclass(frozen=True, slots=True)
class Caller:
    """Opens a connection for each request, because the server closes idle connections."""

    server: Server

    def call(self, verb: str, path: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and return the JSON document of the answer."""
        with self.server.client() as client:
            return client.call(verb, path, document)


def wait_until(is_so: Callable[[], object], what: str, seconds: float = WAIT_S_MAX) -> None:
    """Poll until ``is_so`` is true.  Raises SystemExit after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {seconds:g} s, but not true yet: {what}")
        time.sleep(POLL_S)


@contextlib.contextmanager
def emulated(kind: str) -> Iterator[Cluster]:
    """Start a cluster of the tests, LIVE or PAPER, and stop it at the end of the block."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ready = folder / "ready.json"
        child = subprocess.Popen([sys.executable, str(CLUSTER), name, kind])
        try:
            wait_until(lambda: ready.exists() or child.poll() is not None, "the cluster is up")
            if not ready.exists():
                raise SystemExit("the cluster did not start; see its messages above")
            made = json.loads(ready.read_text())
            yield Cluster(
                kubeconfig=folder / "kubeconfig",
                spool=Path(made["spool"]),
                claim=made["claim"],
                image=made["image"],
                folder=folder,
                pid=child.pid,
            )
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait()


def configuration(at: Cluster) -> str:
    """Return the config.toml of a server whose only engine is the cluster."""
    return f"""\
[[engine]]
name = "cluster"
kind = "kubernetes"
kubeconfig = "{at.kubeconfig}"
namespace = "{at.namespace}"
spool = "{at.spool}"
claim = "{at.claim}"
policy = "best-effort"
registry = false

[[image]]
image = "{at.image}"
environment = "container"
"""


@contextlib.contextmanager
def server_on(at: Cluster) -> Iterator[Server]:
    """Start a Trainshed server whose engine is the cluster."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.toml").write_text(configuration(at))
        with local(Path(folder)) as server:
            yield server


def a_job(at: Cluster, count: int, argv: Sequence[str]) -> dict[str, object]:
    """Return a job of ``count`` replicas that run a command."""
    spec = {"imageUri": at.image, "command": list(argv)}
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
    """Wait until a job has one of the states; return the time.  Raises SystemExit for a failure."""

    def is_so() -> bool:
        current = state(client, name)
        if current == "FAILED" and current not in states:
            raise SystemExit(f"{name} failed: {client.call('GET', f'/v1/{name}').get('error')}")
        return current in states

    wait_until(is_so, f"{name} is {' or '.join(states)}")
    return time.time()


def native(name: str, path: str) -> str:
    """Return a path of the native API for a job."""
    return f"/trainshed/v1/projects/{PROJECT}/jobs/{name.rpartition('/')[2]}{path}"
