"""Measures the cost of a job beside its program: CPU of supervisor and server, and jobs per second.

The benchmark submits a burst of jobs whose programs do nothing to a real server, and waits for the
end of the last job.  CPU time is that of the server and all its descendants, also of those that
have ended.  The jobs per second are valid only on a machine without other work; the CPU time is
valid on any machine.

    python -m benchmarks job-cost [--jobs 100] [--against SRC]
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Benchmark, Json, Report, at_least, at_most
from benchmarks.service.client import Client, together
from benchmarks.service.documents import CPU_IMAGE, VERTEX
from benchmarks.service.servers import Server, local

CLIENTS = 4
WAIT_S_MAX = 300.0
POLL_S = 0.1
#: The counter of ended jobs; releases before it have a gauge of all jobs by state.
FINISHED = ("trainshed_jobs_finished_total{", "trainshed_jobs{")
SUPERVISOR_MS_MAX, SERVER_MS_MAX, JOBS_PER_S_MIN = 60.0, 10.0, 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one job in a burst of jobs."""

    supervisor_ms: float
    """CPU time of the supervisor and the program, and the job's share of the fork server."""
    server_ms: float
    jobs_per_s: float


def measure(args: argparse.Namespace) -> Report:
    """Measure one burst of jobs."""
    cost = measured(args.jobs, args.warm, args.against)
    return Report(
        goals=[
            at_most("CPU of a supervisor", cost.supervisor_ms, SUPERVISOR_MS_MAX, "ms"),
            at_most("CPU of the server for a job", cost.server_ms, SERVER_MS_MAX, "ms"),
            at_least("jobs in a burst", cost.jobs_per_s, JOBS_PER_S_MIN, "/s"),
        ],
    )


def measured(jobs: int, warm: int, source: Path | None) -> Cost:
    """Run a burst of jobs on a server that has already run ``warm`` jobs; return the cost."""
    with tempfile.TemporaryDirectory() as name, local(Path(name), source=source) as server:
        folder = Path(name)
        folder.chmod(0o711)
        burst(server, folder, warm)
        before, server_s, began = tree_cpu_s(server.pid), server.cpu_s(), time.monotonic()
        burst(server, folder, jobs)
        wall_s = time.monotonic() - began
        server_s = server.cpu_s() - server_s
        rest_s = tree_cpu_s(server.pid) - before - server_s
    return Cost(
        supervisor_ms=1000 * rest_s / jobs,
        server_ms=1000 * server_s / jobs,
        jobs_per_s=jobs / wall_s,
    )


def burst(server: Server, folder: Path, jobs: int) -> None:
    """Submit a number of jobs at once, and wait until all have ended.

    Read the records of the jobs first, and ask the server last: each request costs it CPU time.
    """
    target = ended(server) + jobs
    deadline = time.monotonic() + WAIT_S_MAX
    together(server.url, server.token, CLIENTS, jobs, nothing)
    while recorded(folder) < target or ended(server) < target:
        if time.monotonic() > deadline:
            raise SystemExit(f"the jobs did not end within {WAIT_S_MAX:g} s")
        time.sleep(POLL_S)


def recorded(folder: Path) -> int:
    """Return the number of attempts whose end is recorded."""
    records = (folder / "jobs").glob("*/*/records.jsonl")
    return sum(b'"Ended"' in path.read_bytes() for path in records)


def nothing(client: Client, number: int) -> None:
    """Submit a job that does nothing."""
    program = {"imageUri": CPU_IMAGE, "command": ["/bin/true"]}
    one = {"machineSpec": {"machineType": "n1-standard-4"}, "containerSpec": program}
    spec: Json = {"workerPoolSpecs": [{**one, "replicaCount": "1"}]}
    client.answer("POST", VERTEX, {"displayName": f"nothing-{number}", "jobSpec": spec})


def ended(server: Server) -> int:
    """Return the number of jobs that have succeeded."""
    with server.client() as client:
        metrics = client.answer("GET", "/trainshed/v1/metrics").decode()
    succeeded = [line for line in metrics.splitlines() if '"SUCCEEDED"' in line]
    lines = [line for line in succeeded if line.startswith(FINISHED)]
    return sum(int(float(line.rpartition(" ")[2])) for line in lines)


def tree_cpu_s(root: int) -> float:
    """Return the CPU time of a process and its descendants, also of ended ones."""
    return sum(map(cpu_s, list_descendants(root)))


def list_descendants(root: int) -> Iterator[int]:
    """Yield a process and all its descendants."""
    yield root
    for task in Path(f"/proc/{root}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from list_descendants(int(child))


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process and of the children for which it has waited."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={"jobs": (100, 2), "warm": (8, 1)},
    add_options=lambda parser: parser.add_argument(
        "--against", type=Path, metavar="SRC", help="measure another version"
    ),
)
