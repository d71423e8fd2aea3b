"""Measures restarts of a killed server, the memory of supervisors, and cancels.

    python -m benchmarks recovery [--kills 5]

The benchmark kills (SIGKILL) and restarts a server with 1,000 simulated jobs that run, and a server
with 20 real jobs.  It reads the memory of the supervisors.  It cancels trainers that have forked
daemons and ignore SIGTERM.  No other project has a comparable benchmark.
"""

import argparse
import os
import re
import signal
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.harness import Benchmark, Json, Report, at_most
from benchmarks.service.documents import VERTEX
from benchmarks.service.measures import wait_for
from benchmarks.service.servers import Server, local, simulated_at
from trainshed.engines.supervise.record.folder import AttemptFolder

READY_S, GONE_S_MAX, RSS_MB_MAX = 5.0, 5.0, 15.0
GRACE_S = 1.0

SLEEPS = "import time; print('up', flush=True); time.sleep(3600)"
#: Starts a daemon in another session, with a child; all three processes ignore SIGTERM.
CLINGS = """\
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    os.fork()
print("up", flush=True)
time.sleep(3600)
"""


def job(number: int, code: str) -> Json:
    """Return a custom job that runs Python code."""
    image = "us-docker.pkg.dev/vertex-ai/training/pytorch-cpu.2-4.py310:latest"
    program = {"imageUri": image, "command": ["python", "-c", code]}
    one = {"machineSpec": {"machineType": "n1-standard-4"}, "containerSpec": program}
    spec = {"workerPoolSpecs": [{**one, "replicaCount": "1"}]}
    return {"displayName": f"job-{number}", "jobSpec": spec}


def submit(server: Server, count: int, code: str) -> list[str]:
    """Submit real jobs, wait until each runs, and return their names."""
    with server.client() as client:
        names = [str(client.call("POST", VERTEX, job(n, code))["name"]) for n in range(count)]
        for name in names:
            await_state(server, name, "JOB_STATE_RUNNING")
    return names


def await_state(server: Server, name: str, state: str) -> None:
    """Wait until a job is in a state."""

    def is_in_state() -> bool:
        with server.client() as client:
            return bool(client.call("GET", f"/v1/{name}")["state"] == state)

    wait_for(is_in_state, f"{name} did not become {state}")


def simulated_ready_s(kills: int, jobs: int) -> list[float]:
    """Return the seconds of each start of a simulated server with ``jobs`` running jobs."""
    durations = []
    with tempfile.TemporaryDirectory() as folder:
        with simulated_at(Path(folder), gpus=8) as server:
            with server.client() as client:
                client.answer("POST", f"/simulated/jobs?count={jobs}", {})
            wait_for(
                lambda: server.states().get("RUNNING", 0) == jobs,
                "the simulated jobs did not start",
            )
            os.kill(server.pid, signal.SIGKILL)
        for _ in range(kills):
            with simulated_at(Path(folder), gpus=8) as server:
                durations.append(server.started_s)
                os.kill(server.pid, signal.SIGKILL)
    return durations


def on_this_machine(kills: int, jobs: int, cancels: int) -> tuple[list[float], float, list[float]]:
    """Measure a server with real jobs, on this machine.

    Return the seconds of each restart, the MB of the largest supervisor, and the seconds of each
    cancel.
    """
    starts_s = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "config.toml").write_text(
            f"[fleet]\ngrace_s = {GRACE_S}\nslots = {jobs + cancels}\n"
        )
        with local(path) as server:
            submit(server, jobs, SLEEPS)
            rss_mb = max(map(memory_mb, supervisors(path)))
            os.kill(server.pid, signal.SIGKILL)
        for _ in range(kills):
            with local(path) as server:
                starts_s.append(server.started_s)
                os.kill(server.pid, signal.SIGKILL)
        with local(path) as server:
            ends_s = [end_s(path, server, name) for name in submit(server, cancels, CLINGS)]
            end_all(server)
    return starts_s, rss_mb, ends_s


def end_s(folder: Path, server: Server, name: str) -> float:
    """Return the seconds from a cancel until no process of the job is alive."""
    uid = name.rpartition("/")[2]
    began = time.monotonic()
    with server.client() as client:
        client.answer("POST", f"/v1/{name}:cancel", {})
    wait_for(lambda: not marked(f"TRAINSHED_JOB={uid}/1"), f"a process of {name} still runs")
    wait_for(lambda: not supervisors(folder, uid), f"the supervisor of {name} still runs")
    return time.monotonic() - began


def end_all(server: Server) -> None:
    """Cancel all running jobs, and wait for their end."""
    with server.client() as client:
        jobs = client.call("GET", f"{VERTEX}?pageSize=100")["customJobs"]
        living = [record["name"] for record in jobs if record["state"] == "JOB_STATE_RUNNING"]
        for name in living:
            client.answer("POST", f"/v1/{name}:cancel", {})
    for name in living:
        await_state(server, name, "JOB_STATE_CANCELLED")


def supervisors(folder: Path, uid: str = "") -> list[int]:
    """Return the pids of the supervisors of a job, by the locks of its attempts.

    Without ``uid``, return those of all jobs.
    """
    attempts = map(AttemptFolder, (folder / "jobs").glob(f"{uid or '*'}/*"))
    holders = (attempt.holder() for attempt in attempts if attempt.is_held())
    return [holder.pid for holder in holders if holder is not None]


def marked(mark: str) -> list[int]:
    """Return the pids of all processes that have an attempt's mark in their environment."""
    return [pid for pid in processes() if mark in read(Path(f"/proc/{pid}/environ")).split("\0")]


def processes() -> list[int]:
    """Return the ids of all processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - names


def read(path: Path) -> str:
    """Read a file of a process; empty if the process has ended."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process, in MB."""
    return int(re.findall(r"VmRSS:\s+(\d+) kB", read(Path(f"/proc/{pid}/status")))[0]) / 1024


def measure(args: argparse.Namespace) -> Report:
    """Measure with simulated jobs, then with real ones."""
    simulated_s = simulated_ready_s(args.kills, args.simulated)
    starts_s, rss_mb, ends_s = on_this_machine(args.kills, args.jobs, args.cancels)
    ready = f"ready again, {{}} jobs, slowest of {args.kills}"
    gone = f"a cancelled trainer with daemons is gone, {{}} of {args.cancels}"
    most_s, grace = GONE_S_MAX + GRACE_S, f"grace {GRACE_S:g} s"
    return Report(
        goals=[
            at_most(ready.format(f"{args.simulated} simulated"), max(simulated_s), READY_S, "s"),
            at_most(ready.format(f"{args.jobs} real"), max(starts_s), READY_S, "s"),
            at_most(f"memory of a supervisor, largest of {args.jobs}", rss_mb, RSS_MB_MAX, "MB"),
            at_most(gone.format("slowest"), max(ends_s), most_s, "s", grace),
            at_most(gone.format("median"), statistics.median(ends_s), most_s, "s", grace),
        ],
        data={"simulated_s": simulated_s, "starts_s": starts_s, "ends_s": ends_s},
    )


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={"kills": (5, 1), "simulated": (1000, 10), "jobs": (20, 1), "cancels": (20, 1)},
)
