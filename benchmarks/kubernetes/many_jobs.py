"""Measures a server with many running jobs on a cluster on paper, where no process is started.

The cluster makes the pods of each JobSet as objects, and the records that its launcher would write.
"""

import statistics
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from benchmarks.harness import Goal, at_least, at_most, tell
from benchmarks.kubernetes import clusters, plain
from benchmarks.kubernetes.clusters import (
    JOBS,
    Caller,
    Cluster,
    a_job,
    await_state,
    native,
    wait_until,
)
from benchmarks.service.client import Client, together
from benchmarks.service.servers import Server
from trainshed.engines.supervise.record.records import Ended, append
from trainshed.model.attempt import Outcome

REPLICAS = 4
CLIENTS = 4
ARGV = ("python3", "-c", "pass")
#: Seconds until the server has finished its work after a burst.
SETTLE_S = 10.0
#: Seconds between two losses of all versions: sooner, the second counts as a failure of the first.
BETWEEN_LISTS_S = 5.0
RUN_S_MAX = 240.0


def measure_burst(client: Caller, at: Cluster, jobs: int) -> tuple[list[Goal], list[str]]:
    """Submit jobs at once, and the same JobSets by kubectl; return the goals and the jobs."""
    began = time.time()
    names = _submit_all(client, at, jobs)
    for name in names:
        wait_until(lambda name=name: _handed_over_s(client, name), f"{name} is handed over")  # type: ignore[misc]
    ours = jobs / (max(_handed_over_s(client, name) for name in names) - began)
    for name in names:
        await_state(client, name, "RUNNING")
    parts = client.call("GET", native(names[0], "/manifest"))["parts"]
    sent = next(part["text"] for part in parts if part["name"] == "jobset.json")
    jobsets = [plain.plain_jobset(sent, f"bench-{number}", ARGV) for number in range(jobs)]
    began = time.time()
    plain.create(at, *jobsets)
    peer = jobs / (time.time() - began)
    at.kubectl("delete", "jobset", *(f"bench-{number}" for number in range(jobs)))
    tell(f"{jobs} jobs: {ours:.1f}/s handed over, {peer:.1f}/s by kubectl")
    note = "one kubectl create of all"
    return [
        at_least(f"handed over, of {jobs} jobs", ours, None, "/s"),
        at_least("the same, beside kubectl", ours / peer, None, "times", note),
    ], names


def _submit_all(client: Caller, at: Cluster, jobs: int) -> list[str]:
    names: list[str] = []
    document = a_job(at, REPLICAS, ARGV)

    def submit_one(connection: Client, _number: int) -> None:
        names.append(str(connection.call("POST", JOBS, document)["name"]))

    together(client.server.url, client.server.token, CLIENTS, jobs, submit_one)
    return names


def _handed_over_s(client: Caller, name: str) -> float:
    """Return the time at which the server handed over a job; 0: not yet."""
    events = client.call("GET", native(name, "/events"))["events"]
    times = (event["time"] for event in events if event["kind"] == "HANDED_OVER")
    return next((datetime.fromisoformat(text).timestamp() for text in times), 0.0)


def measure_rest(
    client: Caller, server: Server, at: Cluster, jobs: int, watch_s: float
) -> list[Goal]:
    """Let jobs run, and measure the server while nothing changes, and while lists are due."""
    began, before_mb = time.monotonic(), server.memory_mb()
    names = _submit_all(client, at, jobs)
    wait_until(lambda: _count_running(client) >= jobs, f"{jobs} jobs run", RUN_S_MAX)
    tell(f"{jobs} jobs run after {time.monotonic() - began:.0f} s")
    time.sleep(min(SETTLE_S, watch_s))
    cpu_s = server.cpu_s()
    time.sleep(watch_s)
    percent = (server.cpu_s() - cpu_s) / watch_s * 100
    lists = _measure_lists(server, at)
    ends = _measure_ends(client, at, names)
    memory = server.memory_mb()
    what = f"{jobs} running jobs of {REPLICAS} pods"
    note = f"{before_mb:.0f} MB before"
    return [
        at_most(f"memory, {what}", memory, 200.0, "MB", note),
        at_most(f"CPU at rest, {what}", percent, 5.0, "% of a core"),
        at_most("an end is the job's state, median", statistics.median(ends), 1.0, "s"),
        at_most("an end is the job's state, longest", max(ends), None, "s", f"of {len(ends)}"),
        *lists,
    ]


def _count_running(client: Caller) -> int:
    """Return the number of running jobs from the server's metrics."""
    with client.server.client() as connection:
        text = connection.answer("GET", "/trainshed/v1/metrics").decode()
    lines = [line for line in text.splitlines() if line.startswith("trainshed_jobs{")]
    return sum(int(float(line.split()[-1])) for line in lines if '"RUNNING"' in line)


def _measure_lists(server: Server, at: Cluster) -> list[Goal]:
    seconds, cpu = [], []
    for _ in range(3):
        cpu_s = server.cpu_s()
        seconds.append(at.expire())
        cpu.append(server.cpu_s() - cpu_s)
        time.sleep(BETWEEN_LISTS_S)
    note = f"{statistics.median(cpu):.2f} CPU s of the server"
    return [at_most("list after 410", statistics.median(seconds), 3.0, "s", note)]


def _measure_ends(client: Caller, at: Cluster, names: Sequence[str]) -> list[float]:
    """Write the end of some jobs as their launchers would; return the seconds to their states."""
    seconds = []
    for name in names[: min(15, len(names))]:
        _end(at.attempt(name))
        began = time.time()
        seconds.append(await_state(client, name, "SUCCEEDED") - began)
    return seconds


def _end(folder: Path) -> None:
    outcome = Outcome(exit_code=0, message="the program ended")
    append(str(folder / "records.jsonl"), Ended(outcome), durably=False)


def measure_many(jobs: int, burst: int, watch_s: float) -> list[Goal]:
    """Run all parts on one cluster on paper."""
    with clusters.emulated(clusters.PAPER) as at, clusters.server_on(at) as server:
        client = Caller(server)
        goals, names = measure_burst(client, at, burst)
        for name in names:
            _end(at.attempt(name))
        for name in names:
            await_state(client, name, "SUCCEEDED")
        return [*goals, *measure_rest(client, server, at, jobs, watch_s)]
