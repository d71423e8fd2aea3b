"""Servers whose only engine is the cluster of the tests, and jobs for it."""

from contextlib import contextmanager

from e2e.fleet import FINAL, ended, output_lines, story_text
from e2e.support import custom_job, native, prepared, serving, wait_until
from engine_tables import compose_engine_table
from slurm.world import SLEEPS, options

WAITS = """\
import os, time
print("began", flush=True)
while not os.path.exists({file!r}):
    time.sleep(0.05)
"""
#: Prints the replica's node, which a process above it has from Slurm, and the GPUs that it sees.
WHERE = """\
import os, re
pid, name = os.getpid(), "SLURMD_NODENAME"
while not (node := re.search(f"\\0{name}=([^\\0]+)", open(f"/proc/{pid}/environ").read())):
    pid = re.search("PPid:\\s+([0-9]+)", open(f"/proc/{pid}/status").read())[1]
print("at", node[1], os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
"""
SMALL, WHOLE_NODE = "n1-standard-4", "n1-standard-16"


def table(cluster, **more):
    """The engine's table in the server's file."""
    (cluster.shared / "spool").mkdir(exist_ok=True)
    words = {"name": "cluster", "kind": "slurm", **options(cluster, **more)}
    return compose_engine_table(words)


@contextmanager
def on_cluster(cluster, folder, *flags, **more):
    """A started server whose jobs all go to the cluster; ``more`` are options of the engine."""
    with serving(folder, *flags, config=table(cluster, **more)) as server:
        yield server


def prepared_on_cluster(cluster, folder, *flags, **more):
    return prepared(folder, *flags, config=table(cluster, **more))


def a_job(name, code="print('trained')", *, machine=SMALL, gpus=0, workers=0, **scheduling):
    """A job of Vertex on small machines, so that several fit a node."""
    document = custom_job(name, code, gpus=gpus, workers=workers)
    for pool in document["jobSpec"]["workerPoolSpecs"]:
        pool["machineSpec"]["machineType"] = machine
    if scheduling:
        document["jobSpec"]["scheduling"] = scheduling
    return document


def waits_for(file):
    """A program that ends when a file is there."""
    return WAITS.format(file=str(file))


def come_to(server, name, state, *, timeout_s=120):
    """Wait until a job is in a state; what the native API says then."""

    def job_in_state():
        job = native(server, name)
        assert job["state"] == state or job["state"] not in FINAL, story_text(server, name)
        return job if job["state"] == state else None

    return wait_until(job_in_state, lambda: story_text(server, name), timeout_s=timeout_s)


def allocations(cluster, uids=()):
    """The names of all that Slurm has ever given out or holds, once it shows one for each uid.

    Slurm counts an allocation's end a moment after it has left the queue, and shows it nowhere
    meanwhile; one that ends between the two readings is in both, and has one number.
    """

    def list_jobs():
        names = dict(line.split(maxsplit=1) for line in cluster.jobs("%A %j"))
        names |= {row["JobId"]: row["Name"] for row in cluster.finished()}
        ours = sorted(name.strip() for name in names.values() if name.startswith("ts-"))
        return (ours,) if set(uids) <= {name.rpartition("-")[2] for name in ours} else None

    return wait_until(list_jobs, lambda: f"Slurm has shown no allocation of some of {uids}")[0]


@contextmanager
def partition(cluster, name, *settings):
    """Another partition of all nodes."""
    cluster.run("scontrol", "create", f"partitionname={name}", "nodes=ALL", *settings)
    try:
        yield
    finally:
        cluster.empty()
        cluster.run("scontrol", "delete", f"partitionname={name}")


@contextmanager
def taken(cluster, nodes, *flags):
    """A job of another user runs on each of these nodes."""
    script = cluster.folder / "sleeps"
    script.write_text(SLEEPS)
    words = ("sbatch", "--parsable", "--output=/dev/null", *flags)
    numbers = {cluster.run(*words, f"--nodelist={node}", script).strip() for node in nodes}
    cluster.wait_for(lambda: numbers <= {*cluster.jobs_in("RUNNING")})
    try:
        yield
    finally:
        cluster.run("scancel", *numbers)
        cluster.wait_for(lambda: not numbers & {*cluster.jobs("%A")})


def replicas_at(server, name):
    """The node and the GPUs of each replica, by its own account; its node is that of the story."""
    job = ended(server, name)
    assert job["state"] == "SUCCEEDED", story_text(server, name)
    rows = []
    for replica in job["replicas"]:
        (line,) = output_lines(server, name, replica["taskName"])
        _, node, gpus = line.split(" ")
        assert node == replica["node"], story_text(server, name)
        rows.append((node, gpus))
    return sorted(rows)
