"""Measures how long a client waits while others keep more connections open than the server may.

    python -m benchmarks connections [--descriptors 1024] [--half-heads 1100]

A half head is a connection with an unfinished request.  The server may open ``--descriptors``
files.  The benchmark measures ``/healthz`` and a submit, each on a new connection: without other
clients, with all half heads open, and while one thread opens half heads as fast as it can.  The
last phase has no goal, because that thread uses as much processor time as it gets.
"""

import argparse
import resource
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.harness import Benchmark, Json, Report, at_most
from benchmarks.service.documents import ML
from benchmarks.service.servers import Server, local

ANSWER_S_MAX = 1.0
FLOOD = "half heads keep coming"
ENDED = {"SUCCEEDED", "FAILED", "CANCELLED"}
HALF = b"GET /healthz HTTP/1.1\r\nHost: 127."
CONFIG = f"""\
[[environment]]
name = "here"
python = "{sys.executable}"

[[image]]
image = "here"
environment = "here"
"""


def measure(args: argparse.Namespace) -> Report:
    """Measure the answers of one server in each phase."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.toml").write_text(CONFIG)
        with local(Path(folder), descriptors=args.descriptors) as server:
            durations = measured(server, args.half_heads, args.rounds, with_flood=not args.dry)
    judged = [phase for phase in durations if phase != FLOOD]
    slowest = max(max(times) for phase in judged for times in durations[phase].values())
    return Report(
        goals=[at_most("the slowest answer", slowest, ANSWER_S_MAX, "s")],
        lines=[
            f"  {phase:<24} {call:<8} {sorted(times)[len(times) // 2] * 1e3:7.1f} ms, "
            f"at most {max(times):.3f} s"
            for phase, calls in durations.items()
            for call, times in calls.items()
        ],
        data={"seconds": durations},
    )


def measured(
    server: Server, half_heads: int, rounds: int, *, with_flood: bool
) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of each call, by phase and by the name of the call."""
    url = urlsplit(server.url)
    address = (str(url.hostname), int(url.port or 0))
    times_by_phase = {"nobody else": times(server, "alone", rounds)}
    connections = [half_head(address) for _ in range(half_heads)]
    times_by_phase[f"{half_heads} half heads"] = times(server, "held", rounds)
    if with_flood:
        times_by_phase[FLOOD] = times_in_flood(server, address, rounds)
    for connection in connections:
        connection.close()
    return times_by_phase


def times_in_flood(server: Server, address: tuple[str, int], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each call while a thread opens half heads."""
    stop = threading.Event()
    flood = threading.Thread(target=open_half_heads, args=(address, stop))
    flood.start()
    flood_times = times(server, "flood", rounds)
    stop.set()
    flood.join()
    return flood_times


def half_head(address: tuple[str, int]) -> socket.socket:
    """Open a connection and send the first part of a request."""
    connection = socket.create_connection(address, timeout=60)
    connection.sendall(HALF)
    return connection


def open_half_heads(address: tuple[str, int], stop: threading.Event) -> None:
    """Open half heads until ``stop`` is set; the server may close them."""
    connections: list[socket.socket] = []
    while not stop.is_set():
        with suppress(OSError):
            connections.append(half_head(address))
        if len(connections) > 2000:
            connections.pop(0).close()
    for connection in connections:
        connection.close()


def times(server: Server, mark: str, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each call, each on a new connection."""
    numbers = iter(range(rounds))

    def get_health() -> None:
        with server.client() as client:
            client.answer("GET", "/healthz")

    def submit() -> None:
        with server.client() as client:
            client.call("POST", ML, job(f"{mark}_{next(numbers)}"))

    calls = {"healthz": get_health, "submit": submit}
    durations = {name: [seconds(call) for _ in range(rounds)] for name, call in calls.items()}
    wait_for_jobs(server)
    return durations


def wait_for_jobs(server: Server) -> None:
    """Wait for the end of all jobs of a phase, before the next phase begins."""
    with server.client() as client:
        while any(job["state"] not in ENDED for job in client.call("GET", ML)["jobs"]):
            time.sleep(0.2)


def job(name: str) -> Json:
    """Return a job that ends at once."""
    master = {"imageUri": "here", "containerCommand": ["python", "-c", "pass"]}
    return {
        "jobId": name,
        "trainingInput": {"region": "us-central1", "scaleTier": "BASIC", "masterConfig": master},
    }


def seconds(call: Callable[[], None]) -> float:
    """Return the seconds that a call takes."""
    began = time.monotonic()
    call()
    return time.monotonic() - began


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={"descriptors": (1024, 1024), "half-heads": (1100, 20), "rounds": (20, 1)},
)
