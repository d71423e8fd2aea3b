"""Measures the cost of a long queue in which no job changes."""

import time

from benchmarks.harness import at_most
from benchmarks.service.servers import Server
from benchmarks.slurm import counts, sides
from benchmarks.slurm.measured import Measured
from benchmarks.slurm.sides import Caller, Cluster, submit

#: The number of jobs of four CPUs that fill the small cluster.
SLOTS = 24
WATCH_S = 60.0
#: Seconds after the last hand-over: the server polls often for 15 s.
_SETTLE_S = 20.0


def measure_queue(
    measured: Measured, client: Caller, server: Server, at: Cluster, queued: int
) -> None:
    """Measure the cost of a long queue in which no job changes."""
    idle_mb = server.memory_mb()
    go = at.folder / "shared" / "go-queue"
    folder = at.make_folder()
    for _ in range(SLOTS + queued):
        submit(client, sides.a_job(at, folder, 1, str(go)))
    jobs = SLOTS + queued
    sides.wait_until(lambda: len(at.command("squeue", "-h").splitlines()) >= jobs, "all wait")
    time.sleep(_SETTLE_S)
    before, cpu_s = counts.count_queries(at), server.cpu_s()
    time.sleep(WATCH_S)
    polls = (counts.count_queries(at) - before) / WATCH_S
    percent = (server.cpu_s() - cpu_s) / WATCH_S * 100
    measured.goals += [
        at_most(f"squeue at rest, {queued} waiting", polls, 0.15, "/s"),
        at_most(f"CPU of the server, {queued} waiting", percent, 4.0, "% of a core"),
        at_most(f"memory, {queued} waiting", server.memory_mb() - idle_mb, 40.0, "MB"),
    ]
    go.touch()
