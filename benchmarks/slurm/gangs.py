"""Measures a gang of 64 replicas on 100 nodes, and the memory of the processes of a replica."""

import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.harness import at_most
from benchmarks.slurm import counts, sides
from benchmarks.slurm.measured import Measured
from benchmarks.slurm.sides import Caller, Cluster, moments, submit

GANG = 64


def measure_large(measured: Measured) -> None:
    """Measure a gang of 64 replicas on 100 nodes, compared with plain srun."""
    with sides.cluster("--large") as at, sides.server_on(at) as server:
        client = Caller(server)
        plain, ours = [], []
        for _ in range(2):
            folder, began = at.make_folder(), time.time()
            with ThreadPoolExecutor(1) as threads:
                running = threads.submit(sides.plain_srun, at, folder, GANG)
                plain.append(moments(folder, GANG)[-1] - began)
                running.result()
            at.idle()
            folder, began = at.make_folder(), time.time()
            submit(client, sides.a_job(at, folder, GANG))
            stamps = moments(folder, GANG)
            ours.append(stamps[-1] - _allocated(at, began))
            at.idle()
        measured.goals += [
            at_most(f"{GANG} first lines after the allocation", min(ours), None, "s"),
            at_most(f"the same, over srun -N{GANG}", min(ours) / min(plain), 3.0, "times"),
        ]


def _allocated(at: Cluster, after: float) -> float:
    """Return the start time of the newest job; Slurm gives whole seconds."""
    starts = at.command("squeue", "-h", "-t", "all", "-o", "%S").split()
    newest = max(time.mktime(time.strptime(start, "%Y-%m-%dT%H:%M:%S")) for start in starts)
    return max(newest, after)


def measure_memory(measured: Measured, client: Caller, at: Cluster) -> None:
    """Measure the memory of a warden and its reaper, and of a launcher of one replica and its own.

    The launcher of the gang has a reaper too, so the single replica runs alone.
    """
    for count, word, name in ((2, "task", "warden"), (1, "attempt", "launcher of one replica")):
        at.idle()
        folder = at.make_folder()
        go = folder.with_suffix(".go")
        job = submit(client, sides.a_job(at, folder, count, str(go)))
        sides.await_state(client, job, "RUNNING")
        moments(folder, count)
        size_mb = max(counts.memory_below_reapers_mb(at, word))
        go.touch()
        sides.await_state(client, job, "SUCCEEDED")
        measured.goals.append(at_most(f"memory of a {name} and its reaper", size_mb, 15.0, "MB"))
