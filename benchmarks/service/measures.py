"""Measures submits, reads and first lines of a server."""

import os
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from benchmarks.harness import TRAINSHED
from benchmarks.service.client import Client, Load, together
from benchmarks.service.documents import ML, PROJECT, VERTEX, bodies, gang, say
from benchmarks.service.servers import Server, local

CLIENTS = 8
REST_S = 0.5
#: Seconds after the start in which the server finishes the work of its start.
SETTLED_S = 3.0
WAIT_S_MAX = 180.0
NATIVE = f"/trainshed/v1/projects/{PROJECT}/jobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Jobs per second accepted and placed, and the processor time of the server for one job."""

    accepted: float
    placed: float
    p99_ms: float
    cpu_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a submit while ``queued`` jobs wait."""

    queued: int
    cpu_ms: float
    p50_ms: float
    per_s: float


def submit(client: Client, number: int) -> str:
    """Submit a job and return its id."""
    name = str(client.call("POST", VERTEX, bodies(number))["name"])
    return name.rpartition("/")[2]


def press(client: Client, number: int) -> None:
    """Submit a job, and check only the status of the answer."""
    client.answer("POST", VERTEX, bodies(number))


def submits(server: Server, count: int) -> Load:
    """Submit jobs from many clients at once."""
    return together(server.url, server.token, CLIENTS, count, press)


def rate(server: Server, count: int, warm: int, rounds: int) -> Rate:
    """Submit jobs to a fleet with free nodes until all are placed; return the median round."""
    submits(server, warm)
    settle(server)
    rates = [_rate(server, count) for _ in range(rounds)]
    return sorted(rates, key=lambda rate: rate.placed)[rounds // 2]


def _rate(server: Server, count: int) -> Rate:
    cpu_s, began = server.cpu_s(), time.monotonic()
    load = submits(server, count)
    settle(server)
    wall_s = time.monotonic() - began
    return Rate(
        accepted=load.per_s,
        placed=count / wall_s,
        p99_ms=load.quantile_ms(0.99),
        cpu_ms=1000 * (server.cpu_s() - cpu_s) / count,
    )


def list_jobs_s(server: Server, jobs: int, rounds: int) -> float:
    """Return the median seconds of ``trainshed jobs list`` with ``jobs`` jobs."""
    command = [TRAINSHED, "jobs", "list", "--project", PROJECT, "--url", server.url]
    return median([_process_s(command, server.token, jobs) for _ in range(rounds)])


def _process_s(command: Sequence[str], token: str, jobs: int) -> float:
    began = time.monotonic()
    done = subprocess.run(
        command,
        env={**os.environ, "TRAINSHED_TOKEN": token},
        capture_output=True,
        text=True,
        check=True,
    )
    took_s = time.monotonic() - began
    lines = len(done.stdout.splitlines()) - 2
    if lines != jobs:
        raise SystemExit(f"jobs list must print {jobs} jobs, got {lines}")
    return took_s


def settle(server: Server) -> None:
    """Wait until no job is queued."""
    wait_for(lambda: not server.states().get("QUEUED"), "the jobs were not placed")


def queue(server: Server, count: int) -> None:
    """Queue jobs directly in the simulated server, without the API."""
    with server.client() as client:
        client.call("POST", f"/simulated/jobs?count={count}")


def fill(server: Server, running: int) -> None:
    """Start jobs that together use every GPU, and wait until they run."""
    queue(server, running)
    wait_for(lambda: server.states().get("RUNNING", 0) >= running, "the fleet did not fill")


def cost(server: Server, queued: int, count: int, rounds: int) -> Cost:
    """Add jobs to the queue, then submit over HTTP; return the median round."""
    missing = queued - server.states().get("QUEUED", 0)
    if missing > 0:
        queue(server, missing)
    wait_for(lambda: _rests(server), "the server does not come to rest")
    costs = [_cost(server, queued, count) for _ in range(rounds)]
    return sorted(costs, key=lambda cost: cost.cpu_ms)[rounds // 2]


def _rests(server: Server) -> bool:
    """Return whether the server uses little processor time, because earlier work is finished."""
    cpu_s = server.cpu_s()
    time.sleep(REST_S)
    return server.cpu_s() - cpu_s < REST_S / 4


def _cost(server: Server, queued: int, count: int) -> Cost:
    cpu_s = server.cpu_s()
    load = submits(server, count)
    spent = server.cpu_s() - cpu_s
    return Cost(
        queued=queued,
        cpu_ms=1000 * spent / count,
        p50_ms=load.quantile_ms(0.5),
        per_s=load.per_s,
    )


def reads(server: Server, count: int) -> Mapping[str, Load]:
    """Measure each kind of read in turn, while two clients submit without a pause."""
    with server.client() as client:
        jobs = [submit(client, number) for number in range(16)]
        page = client.call("GET", f"{VERTEX}?pageSize=100")["customJobs"]
    jobs += [str(job["name"]).rpartition("/")[2] for job in page]
    kinds: dict[str, Callable[[Client, int], object]] = {
        "get": lambda c, n: c.call("GET", f"{VERTEX}/{jobs[n % len(jobs)]}"),
        "list of 50": lambda c, _: c.call("GET", f"{VERTEX}?pageSize=50"),
        "explain": lambda c, n: c.call("GET", f"{NATIVE}/{jobs[n % len(jobs)]}/explain"),
        "describe": lambda c, n: c.call("GET", f"{NATIVE}/{jobs[n % len(jobs)]}"),
    }
    over = threading.Event()

    def submit_until_over(client: Client, number: int) -> None:
        if not over.is_set():
            press(client, number)

    writers = threading.Thread(
        target=lambda: together(server.url, server.token, 2, 1_000_000, submit_until_over)
    )
    writers.start()
    try:
        return {
            name: together(server.url, server.token, 2, count, call) for name, call in kinds.items()
        }
    finally:
        over.set()
        writers.join()


def gang_s(server: Server, replicas: int) -> float:
    """Return the seconds from the submit of an urgent gang to the event of its placement."""
    document = gang(replicas)
    events = f"{NATIVE}/{document['jobId']}/events"
    with server.client() as client:
        began = time.time()
        client.call("POST", ML, document)
        placed: list[float] = []
        while not placed and time.time() - began < WAIT_S_MAX:
            time.sleep(0.02)
            story = client.call("GET", events)["events"]
            placed = [seconds(event["time"]) for event in story if event["kind"] == "PLACED"]
    if not placed:
        raise SystemExit(f"the gang was not placed within {WAIT_S_MAX:g} s")
    return placed[0] - began


def seconds(time_text: str) -> float:
    """Read a time with nanoseconds, which datetime cannot read; return seconds since 1970."""
    whole, _, rest = time_text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{rest or 0}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """The measurements of a real server on this machine."""

    first_start_s: float
    start_s: float
    memory_mb: float
    first_line_s: Sequence[float]


def on_this_machine(jobs: int, rounds: int) -> Local:
    """Measure starts of the real server, then the first lines of small jobs."""
    with tempfile.TemporaryDirectory() as folder:
        starts_s = []
        for _ in range(rounds):
            with local(Path(folder)) as server:
                starts_s.append(server.started_s)
        with local(Path(folder)) as server:
            starts_s.append(server.started_s)
            time.sleep(SETTLED_S)
            memory_mb = server.memory_mb()
            lines = [first_line_s(server, number) for number in range(jobs + 1)]
        return Local(
            first_start_s=starts_s[0],
            start_s=median(starts_s[1:] or starts_s),
            memory_mb=memory_mb,
            first_line_s=lines[1:],
        )


def first_line_s(server: Server, number: int) -> float:
    """Return the seconds from a submit to the first line of the job's program."""
    began = time.monotonic()
    with server.client() as client:
        name = str(client.call("POST", VERTEX, say(number))["name"]).rpartition("/")[2]
        for line in client.lines(f"{NATIVE}/{name}/logs?follow=true"):
            if line["task"] != "service":
                return time.monotonic() - began
    raise SystemExit(f"job {name} has written nothing: {server.explain_of(name)}")


def wait_for(done: Callable[[], bool], fault: str) -> None:
    """Poll until ``done`` is true.  Raises SystemExit with ``fault`` after a time limit."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit(fault)
        time.sleep(0.05)


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)
