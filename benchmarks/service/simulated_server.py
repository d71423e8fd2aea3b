"""Serves with simulated nodes: the engine starts no process.

    python -m benchmarks.service.simulated_server --data-dir DIR [--nodes N] [--gpus N]

The server has the API of `trainshed serve`, and writes its URL to server.json.  It has two more
methods: `POST /simulated/jobs?count=N` queues N jobs without one HTTP request for each, and
`GET /simulated/jobs` returns the number of jobs in each state.
"""

import argparse
import gc
import json
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from benchmarks.service.documents import LOCATION, PROJECT, T4, simple
from trainshed.api.connections import Connections, limits_of
from trainshed.api.http_server import HttpServer, raise_descriptors
from trainshed.app.application import Application, build
from trainshed.cli.admin.serve import GC_THRESHOLDS
from trainshed.cli.admin.server import END_S, tune_interpreter
from trainshed.config import Settings
from trainshed.launch.names import task_name
from trainshed.model.attempt import AttemptKey
from trainshed.model.launch_plan import Environment, LaunchPlan, ReplicaPlan
from trainshed.model.resources import Claim, FleetPolicy, Node, SeatsOrClaim
from trainshed.model.roles import Dialect
from trainshed.service.auth.tokens import first_token
from trainshed.service.jobs.submission import SubmitRules, admit
from trainshed.service.ports.listening import BACKLOG
from trainshed.service.starts.images import Images
from trainshed.store.records.jobs import JobKind, JobRecord, NewJob
from trainshed.testing.fake_engine import FakeEngine, Script
from trainshed.wire.aiplatform_v1 import parse

SLOTS = 16
#: The number of threads that add jobs: with more threads, the store writes larger batches.
THREADS = 64


def nodes(count: int, gpus: int) -> list[Node]:
    """Return a fleet of machines, each with ``gpus`` GPUs."""
    return [
        Node(
            name=f"node-{number:04}",
            vcpus=96,
            memory_gb=768.0,
            gpus={T4: gpus},
            slots=SLOTS,
            policy=FleetPolicy.BEST_EFFORT,
        )
        for number in range(count)
    ]


def compose(record: JobRecord, attempt: int, place: SeatsOrClaim) -> LaunchPlan:
    """Return a plan that only names the replicas: the simulated engine reads nothing else."""
    dialect = Dialect.ML_V1 if record.kind is JobKind.ML_JOB else Dialect.AIPLATFORM_V1
    return LaunchPlan(
        job_id=record.job.job_id,
        attempt=attempt,
        replicas=tuple(
            ReplicaPlan(
                role=seat.role,
                index=seat.index,
                task_name=task_name(dialect, seat.role, seat.index),
                argv=("python",),
            )
            for seat in ([] if isinstance(place, Claim) else place)
        ),
        environment=Environment(python="python"),
    )


def runs_on(_key: AttemptKey, _plan: LaunchPlan) -> Script:
    """Return a script with which a job runs until the benchmark ends."""
    return Script(runs_s=None)


def queue_jobs(application: Application, count: int) -> None:
    """Queue simple jobs, as the API does after it has read and judged a request."""
    rules = SubmitRules(images=Images((), (), sys.executable))
    admitted = admit(simple(0), LOCATION, rules, parse.custom_job, lambda _: True)
    new = NewJob(
        kind=JobKind.CUSTOM_JOB,
        project=PROJECT,
        location=LOCATION,
        spec=admitted.spec,
        expanded=admitted.expanded,
        demand=admitted.demand,
        creator="benchmark",
        notes=admitted.notes,
    )
    with ThreadPoolExecutor(THREADS) as threads:
        jobs = (replace(new, job_id=new.job_id) for _ in range(count))
        for _ in threads.map(application.store.add_job, jobs):
            pass
    application.controller.wake()


def add_preparation(application: Application) -> None:
    """Add the methods that a real server does not have."""

    def queue(request: Request) -> JSONResponse:
        queue_jobs(application, int(request.query_params["count"]))
        return JSONResponse({})

    def states(_request: Request) -> JSONResponse:
        counts = application.store.counts()
        return JSONResponse({state: count for (_, state), count in counts.items()})

    application.http.router.routes[:0] = [
        Route("/simulated/jobs", queue, methods=["POST"]),
        Route("/simulated/jobs", states, methods=["GET"]),
    ]


def ignore_signal(_signum: int, _frame: FrameType | None) -> None:
    """Ignore the signal that uvicorn raises again after it has ended."""


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--database")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--gpus", type=int, default=8)
    args = parser.parse_args()
    settings = Settings(data_dir=args.data_dir, database=args.database)
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    engine = FakeEngine(nodes(args.nodes, args.gpus), script=runs_on)
    application = build(settings, engine=engine, compose=compose)
    first_token(application.store, settings.data_dir)
    add_preparation(application)
    gc.set_threshold(*GC_THRESHOLDS)
    tune_interpreter()
    application.start()
    address = {"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}
    (settings.data_dir / "server.json").write_text(json.dumps(address))
    signal.signal(signal.SIGTERM, ignore_signal)
    config = uvicorn.Config(
        application.http,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=END_S,
        lifespan="off",
    )
    try:
        HttpServer(config, Connections(limits_of(raise_descriptors()))).run(sockets=[listener])
    finally:
        application.stop()


if __name__ == "__main__":
    main()
