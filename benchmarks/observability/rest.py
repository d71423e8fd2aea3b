"""Measures the memory and the CPU of a server at rest: without jobs, and with one that runs.

With ``--against``, the ``src`` folder of another version, servers of both versions run in turns.
The first start of each does not count: it makes the tables, and imports more for that.
"""

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.harness import Benchmark, Goal, Report, at_most, tell
from benchmarks.launch.isolation import wait_for
from benchmarks.observability.memory import read_memory_mb
from benchmarks.service.client import Client
from benchmarks.service.documents import CPU_IMAGE, VERTEX
from benchmarks.service.servers import Server, local

ADDED_MB_MAX: Final = 1.0
CPU_MAX: Final = 2.0
CPU_WITH_JOB_MAX: Final = 3.0
#: Seconds after its first answer for which a server may do what belongs to its start.
_START_S: Final = 7.0


class Rest(NamedTuple):
    """What a server needs while no caller needs it."""

    private_mb: float
    """The memory that only the server has, in MB."""
    resident_mb: float
    cpu: float
    """CPU without jobs, in percent of a core."""
    cpu_with_job: float


def measure(args: argparse.Namespace) -> Report:
    """Start servers in turns."""
    sources = {"": None, **({"before": args.against} if args.against else {})}
    rows: dict[str, list[Rest]] = {side: [] for side in sources}
    with ExitStack() as stack:
        folders = {
            side: Path(stack.enter_context(tempfile.TemporaryDirectory())) for side in sources
        }
        for side, source in sources.items():
            folders[side].chmod(0o711)
            with local(folders[side], source=source):
                pass
        for number in range(args.rounds):
            for side, source in sources.items():
                with local(folders[side], source=source) as server:
                    rows[side].append(_measure_rest(server, args.seconds))
            tell(f"round {number + 1} of {args.rounds}")
    return Report(goals=_judge(rows), data={"rows": rows})


def _judge(rows: dict[str, list[Rest]]) -> list[Goal]:
    ours = _find_median(rows[""])
    goals = [
        at_most("memory of a server at rest", ours.private_mb, None, "MB", _resident(ours)),
        at_most("CPU of a server without jobs", ours.cpu, CPU_MAX, "% of a core"),
        at_most("CPU while one job runs", ours.cpu_with_job, CPU_WITH_JOB_MAX, "% of a core"),
    ]
    if "before" in rows:
        before = _find_median(rows["before"])
        added_mb, name = ours.private_mb - before.private_mb, "memory of a server at rest, added"
        goals += [
            at_most(name, added_mb, ADDED_MB_MAX, "MB", f"before: {_resident(before)}"),
            at_most("CPU without jobs, before", before.cpu, None, "% of a core"),
            at_most("CPU while one job runs, before", before.cpu_with_job, None, "% of a core"),
        ]
    return goals


def _resident(rest: Rest) -> str:
    return f"{rest.resident_mb:.1f} MB are resident"


def _find_median(rows: list[Rest]) -> Rest:
    return Rest(*map(statistics.median, zip(*rows, strict=True)))


def _measure_rest(server: Server, seconds: float) -> Rest:
    time.sleep(_START_S)
    private_mb, resident_mb = read_memory_mb(server.pid), server.memory_mb()
    cpu = _measure_cpu(server, seconds)
    with server.client() as client:
        name = _start_job(client)
        wait_for(lambda: _read_state(client, name) == "JOB_STATE_RUNNING")
        time.sleep(_START_S)
        with_job = _measure_cpu(server, seconds)
        client.call("POST", f"/v1/{name}:cancel", {})
        wait_for(lambda: _read_state(client, name) == "JOB_STATE_CANCELLED")
    return Rest(private_mb, resident_mb, cpu, with_job)


def _measure_cpu(server: Server, seconds: float) -> float:
    """Return the CPU of a server in the next ``seconds``, in percent of a core."""
    before_s = server.cpu_s()
    time.sleep(seconds)
    return (server.cpu_s() - before_s) / seconds * 100


def _start_job(client: Client) -> str:
    """Submit a job that waits; return its name."""
    program = {"imageUri": CPU_IMAGE, "command": ["/bin/sleep", "600"]}
    pool = {"machineSpec": {"machineType": "n1-standard-4"}, "containerSpec": program}
    spec = {"workerPoolSpecs": [{**pool, "replicaCount": "1"}]}
    return str(client.call("POST", VERTEX, {"displayName": "rest", "jobSpec": spec})["name"])


def _read_state(client: Client, name: str) -> str:
    return str(client.call("GET", f"/v1/{name}")["state"])


BENCHMARK = Benchmark(
    description=__doc__ or "",
    measure=measure,
    sizes={"rounds": (5, 1), "seconds": (20.0, 1.0)},
)
