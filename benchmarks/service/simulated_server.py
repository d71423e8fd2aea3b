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

from benchmarks.service.documents import LOCATION, PROJECT, simple
from benchmarks.service.simulated_engine import SimulatedEngine
from benchmarks.service.simulated_nodes import compose, nodes, script
from trainshed.api.connections import Connections, limits_of
from trainshed.api.http_server import HttpServer, raise_descriptors
from trainshed.app.application import Application, build
from trainshed.cli.admin.serve import GC_THRESHOLDS
from trainshed.cli.admin.server import END_S, tune_interpreter
from trainshed.config import Settings
from trainshed.config.settings import OtelSettings
from trainshed.service.auth.tokens import first_token
from trainshed.service.jobs.refusing import Merged
from trainshed.service.jobs.submission import SubmitRules, admit, judge_submission
from trainshed.service.ports.listening import BACKLOG
from trainshed.service.starts.images import Images
from trainshed.store.records.jobs import JobKind, NewJob
from trainshed.wire.aiplatform_v1 import parse

#: The number of threads that add jobs: with more threads, the store writes larger batches.
THREADS = 64


def queue_jobs(application: Application, count: int) -> None:
    """Queue simple jobs, as the API does after it has read and judged a request."""
    rules = SubmitRules(images=Images((), (), sys.executable))
    merged = Merged(content=simple(0), region=LOCATION)
    admitted = admit(judge_submission(merged, rules, parse.custom_job, lambda _: True), rules)
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
    parser.add_argument("--traces", default="", help="the URL to which traces are sent")
    args = parser.parse_args()
    otel = OtelSettings(endpoint=args.traces)
    settings = Settings(data_dir=args.data_dir, database=args.database, otel=otel)
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    engine = SimulatedEngine(nodes(args.nodes, args.gpus), script=script)
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
