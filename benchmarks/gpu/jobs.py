"""A server with GPUs, jobs on them, and trainers that take steps when they are told.

The same trainer runs bare and as a job, side by side, so that both can be asked in turns: what a
start costs, or a card that gets warm, is then in neither's figure.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from benchmarks.gpu.bench import Bench, Unmeasured
from benchmarks.harness import ROOT, Json
from benchmarks.service.documents import VERTEX
from benchmarks.service.measures import NATIVE
from benchmarks.service.servers import Server, local

WORKER = Path(__file__).with_name("worker.py")
EXAMPLE = ROOT / "examples" / "gpu-check"
IMAGE = "registry.test/gpu:1"
WAIT_S_MAX = 120.0
LOOK_S = 0.05
OVER = ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED")

#: Without walls: what is measured is the same in each mode, and any folder can be read.
CONFIG = f"""\
[isolation]
mode = "none"
allow_root_jobs = true

[fleet.gpu_alias]
NVIDIA_TESLA_T4 = "any"

[[environment]]
name = "own"
python = "{sys.executable}"

[[image]]
image = "registry.test/*"
environment = "own"
"""


@contextlib.contextmanager
def gpu_server(bench: Bench) -> Iterator[Server]:
    """A server over the machine's GPUs, or over a fake one."""
    data = bench.folder / "data"
    data.mkdir(parents=True)
    (data / "config.toml").write_text(CONFIG)
    flags = ["--fleet-policy", "best-effort"]
    if bench.dry:  # fake devices have the same names everywhere: their locks are this server's own
        os.environ["TRAINSHED_LOCK_DIR"] = str(bench.folder / "locks")
        flags += ["--fake-gpus", "1"]
    with local(data, *flags) as server:
        yield server


def document(name: str, command: Sequence[str], *, gpus: int) -> Json:
    """A job of one replica."""
    machine: Json = {"machineType": "n1-standard-8"}
    if gpus:
        machine |= {"acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": gpus}
    program = {"imageUri": IMAGE, "command": list(command)}
    pool = {"machineSpec": machine, "replicaCount": "1", "containerSpec": program}
    return {"displayName": name, "jobSpec": {"workerPoolSpecs": [pool]}}


def started_s(server: Server, body: Json) -> float:
    """From the submit of a job to its program's first line; waits for its end."""
    began = time.monotonic()
    with Job(server, body) as job, server.client() as client:
        for line in client.lines(f"{NATIVE}/{job.id}/logs?follow=true"):
            if line["task"] != "service":
                taken_s = time.monotonic() - began
                job.wait()
                return taken_s
        raise Unmeasured(f"a job has written nothing: {server.explain_of(job.id)}")


class Job:
    """A job that was submitted."""

    def __init__(self, server: Server, body: Json) -> None:
        """Submit it."""
        self._server = server
        with server.client() as client:
            self.id = str(client.call("POST", VERTEX, body)["name"]).rpartition("/")[2]

    def cancel(self) -> None:
        """Ask for its end."""
        with self._server.client() as client:
            client.answer("POST", f"{VERTEX}/{self.id}:cancel", {})

    def state(self) -> str:
        """Where it is."""
        with self._server.client() as client:
            return str(client.call("GET", f"{VERTEX}/{self.id}")["state"])

    def last_words(self) -> str:
        """The end of its log."""
        with self._server.client() as client:
            lines = [line["message"] for line in client.lines(f"{NATIVE}/{self.id}/logs")]
        return " | ".join(lines[-8:])

    def wait(self) -> None:
        """Until it is over.  Raises Unmeasured where it never is."""
        deadline = time.monotonic() + WAIT_S_MAX
        while self.state() not in OVER:
            if time.monotonic() > deadline:
                raise Unmeasured(f"a job did not end: {self._server.explain_of(self.id)}")
            time.sleep(LOOK_S)

    def __enter__(self) -> Self:
        """It lives as long as the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left of it."""
        if self.state() not in OVER:
            self.cancel()
        self.wait()


class Worker:
    """A trainer in a process of its own."""

    def __init__(self, connection: socket.socket) -> None:
        """Read who it is."""
        connection.settimeout(WAIT_S_MAX)
        self._connection, self._answers = connection, connection.makefile("r")
        hello = json.loads(self._answers.readline())
        self.pid = int(hello["pid"])
        self.visible: str | None = hello["visible"]
        """Its CUDA_VISIBLE_DEVICES."""

    def begin(self, steps: int, words: Sequence[str]) -> None:
        """Have it take so many steps of what ``words`` ask of the example; do not wait."""
        request = {"steps": steps, "words": list(words)}
        self._connection.sendall(json.dumps(request).encode() + b"\n")

    def seconds(self, steps: int, words: Sequence[str]) -> float:
        """How long so many steps take; building and warming up a model is not counted."""
        self.begin(steps, words)
        answer = json.loads(self._answers.readline() or "{}")
        if "seconds" not in answer:
            raise Unmeasured(
                f"the trainer failed: {answer.get('error', 'its output has the reason')}"
            )
        return float(answer["seconds"])


@contextlib.contextmanager
def worker_job(server: Server) -> Iterator[tuple[Job, Worker]]:
    """A trainer that is a job with a GPU."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = ["python", str(WORKER), str(listener.getsockname()[1])]
        with (
            Job(server, document("worker", command, gpus=1)) as job,
            _accepted(listener, lambda: job.state() in OVER, job.last_words) as worker,
        ):
            yield job, worker


@contextlib.contextmanager
def bare_worker(visible: str | None = None) -> Iterator[Worker]:
    """The same program, started by us; it sees the devices that ``visible`` names."""
    env = os.environ if visible is None else {**os.environ, "CUDA_VISIBLE_DEVICES": visible}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [sys.executable, str(WORKER), str(listener.getsockname()[1])]
        child = subprocess.Popen(command, env=env)
        try:
            with _accepted(
                listener, lambda: child.poll() is not None, lambda: "see above"
            ) as worker:
                yield worker
        finally:
            child.kill()
            child.wait()


@contextlib.contextmanager
def _accepted(
    listener: socket.socket, has_ended: Callable[[], bool], why: Callable[[], str]
) -> Iterator[Worker]:
    """The worker that calls.  Raises Unmeasured where none does."""
    deadline = time.monotonic() + WAIT_S_MAX
    listener.settimeout(1.0)
    while True:
        try:
            connection, _ = listener.accept()
            break
        except TimeoutError:
            if has_ended() or time.monotonic() > deadline:
                raise Unmeasured(f"the trainer did not begin: {why()}") from None
    with connection:
        yield Worker(connection)
