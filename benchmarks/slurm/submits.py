"""Measures the cost of a job on a Slurm cluster beside plain sbatch, srun, submitit and TorchX.

    python -m benchmarks slurm [--rounds 15] [--jobs 300] [--queued 1000]
        [--skip torchx submitit large queue log]

The benchmark needs root and Debian's packages of Slurm: it starts clusters of 6 and of 100 nodes on
this machine.  All sides run in turn in each round, so that other work on the machine slows all of
them.  submitit and TorchX are installed into ``build/slurm`` if possible; slurm.png is drawn there.
The dry form compares one job with sbatch.
"""

import argparse
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import charts
from benchmarks.harness import ROOT, Benchmark, Goal, Report, at_least, at_most, tell
from benchmarks.service.servers import Server
from benchmarks.slurm import sides
from benchmarks.slurm.sides import Caller, Cluster, moments, submit

OUT = ROOT / "build" / "slurm"
PARTS = ("torchx", "submitit", "large", "queue", "log")
GANG = 64
#: The number of jobs that run on the small cluster while the others wait.
RUNNING = 24
WATCH_S = 20.0
LOG_MB = 200
WRITES = f"""\
import sys
line = "x" * 99 + "\\n"
for _ in range({LOG_MB} * 10):
    sys.stdout.write(line * 1000)
"""


@dataclass(slots=True)
class Measured:
    """The measurements of the parts of the benchmark."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    """Seconds from a submission to the first line, by side; one value for each round."""
    goals: list[Goal] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def median(self, side: str) -> float:
        """Return the median seconds of a side that ran."""
        return statistics.median(self.seconds[side])


def by_us(client: Caller, at: Cluster, folder: Path, count: int) -> None:
    """Submit a job by the API of the server."""
    submit(client, sides.a_job(at, folder, count))


def first_lines(
    measured: Measured,
    at: Cluster,
    starts: Mapping[str, tuple[int, Callable[[Path], None]]],
    rounds: int,
    warm: int,
) -> None:
    """Measure from a submission to the first line of the last task, with all sides in turn."""
    for number in range(warm + rounds):
        for side, (count, start) in starts.items():
            at.idle()
            folder, began = at.make_folder(), time.time()
            start(folder)
            duration = moments(folder, count)[-1] - began
            if number >= warm:
                measured.seconds.setdefault(side, []).append(duration)
    for side in starts:
        tell(f"{side}: {measured.median(side):.2f} s to the first line")


def starts_of(
    measured: Measured, client: Caller, at: Cluster, skip: Sequence[str]
) -> dict[str, tuple[int, Callable[[Path], None]]]:
    """Return the sides that can run on this machine: the number of tasks, and how to start them."""
    starts: dict[str, tuple[int, Callable[[Path], None]]] = {
        "ours": (1, lambda folder: by_us(client, at, folder, 1)),
        "sbatch": (1, lambda folder: sides.plain_sbatch(at, folder, 1)),
        "ours, 4 replicas": (4, lambda folder: by_us(client, at, folder, 4)),
        "sbatch, 4 replicas": (4, lambda folder: sides.plain_sbatch(at, folder, 4)),
    }
    for package, start in (("submitit", sides.by_submitit), ("torchx", sides.by_torchx)):
        python = None if package in skip else sides.installed(OUT, package)
        if python is None:
            measured.left_out[package] = "as asked" if package in skip else "cannot be installed"
            continue
        starts[package] = (1, lambda folder, start=start, python=python: start(python, at, folder))  # type: ignore[misc]
    return starts


def compare(measured: Measured) -> None:
    """Compare our first lines with those of sbatch: add the goals to ``measured``."""
    ours, sbatch = measured.median("ours"), measured.median("sbatch")
    measured.goals.append(at_most("first line, over plain sbatch", ours - sbatch, 0.5, "s"))
    four = measured.median("ours, 4 replicas") - measured.median("sbatch, 4 replicas")
    measured.goals.append(at_most("first line of 4 replicas, over plain sbatch", four, 0.7, "s"))
    for peer, most in (("submitit", 1.0), ("torchx", 0.5)):
        if peer in measured.seconds:
            ratio = ours / measured.median(peer)
            measured.goals.append(at_most(f"first line, over {peer}'s", ratio, most, "times"))


def measure_ends(measured: Measured, client: Caller, at: Cluster, rounds: int) -> None:
    """Measure the time from the last exit to the final state, and from a cancel to it."""
    ends, cancels = [], []
    for _ in range(rounds):
        at.idle()
        folder = at.make_folder()
        go = folder.with_suffix(".go")
        name = submit(client, sides.a_job(at, folder, 1, str(go)))
        sides.await_state(client, name, "RUNNING")
        go.touch()
        began = time.time()
        ends.append(sides.await_state(client, name, "SUCCEEDED") - began)
        other = submit(client, sides.a_job(at, at.make_folder(), 1, str(folder / "never")))
        sides.await_state(client, other, "RUNNING")
        began = time.time()
        client.call("POST", f"/v1/{other}:cancel", {})
        cancels.append(sides.await_state(client, other, "CANCELLED") - began)
    end_s, cancel_s = statistics.median(ends), statistics.median(cancels)
    measured.goals.append(at_most("last exit to final state", end_s, 1.5, "s"))
    measured.goals.append(at_most("cancel of a job that obeys", cancel_s, 2.0, "s"))


def measure_rates(measured: Measured, client: Caller, at: Cluster, jobs: int) -> None:
    """Measure how fast the server submits many small jobs to Slurm, and how fast all begin."""
    at.idle()
    folder, began = at.make_folder(), time.time()
    for _ in range(jobs):
        sides.plain_sbatch(at, folder, 1)
    handed_plain = jobs / (time.time() - began)
    drained_plain = jobs / (moments(folder, jobs)[-1] - began)
    at.idle()
    folder, began = at.make_folder(), time.time()
    names = [submit(client, sides.a_job(at, folder, 1)) for _ in range(jobs)]
    handed = jobs / (_all_handed_over(client, names) - began)
    drained = jobs / (moments(folder, jobs)[-1] - began)
    tell(f"{jobs} jobs: {handed:.1f}/s handed over and {drained:.1f}/s drained; "
         f"plain {handed_plain:.1f}/s and {drained_plain:.1f}/s")  # fmt: skip
    measured.goals += [
        at_least(f"handed over, of {jobs} jobs", handed, 20, "/s"),
        at_least("handed over, beside plain sbatch", handed / handed_plain, 0.8, "times"),
        at_least("drained, beside plain sbatch", drained / drained_plain, 0.9, "times"),
    ]


def _all_handed_over(client: Caller, names: Sequence[str]) -> float:
    """Return the time at which the last job entered Slurm's queue, from its events."""

    def is_handed(name: str) -> bool:
        job = name.rpartition("/")[2]
        path = f"/trainshed/v1/projects/benchmark/jobs/{job}/events"
        return any(event["kind"] == "HANDED_OVER" for event in client.call("GET", path)["events"])

    for name in reversed(names):
        sides.wait_until(lambda name=name: is_handed(name), f"{name} is handed over")  # type: ignore[misc]
    return time.time()


def measure_queue(
    measured: Measured, client: Caller, server: Server, at: Cluster, queued: int
) -> None:
    """Measure the cost of a long queue in which no job changes."""
    idle_mb = server.memory_mb()
    go = at.folder / "shared" / "go-queue"
    folder = at.make_folder()
    for _ in range(RUNNING + queued):
        submit(client, sides.a_job(at, folder, 1, str(go)))
    sides.wait_until(lambda: len(at.command("squeue", "-h").splitlines()) >= queued, "all wait")
    time.sleep(15.0)  # until the server and Slurm have finished their work
    before, cpu_s = sides.count_queries(at), server.cpu_s()
    time.sleep(WATCH_S)
    polls = (sides.count_queries(at) - before) / WATCH_S
    percent = (server.cpu_s() - cpu_s) / WATCH_S * 100
    measured.goals += [
        at_most(f"squeue at rest, {queued} waiting", polls, 0.12, "/s"),
        at_most(f"CPU of the server, {queued} waiting", percent, 3.0, "% of a core"),
        at_most(f"memory, {queued} waiting", server.memory_mb() - idle_mb, 40.0, "MB"),
    ]
    go.touch()


def measure_log(measured: Measured, client: Caller, at: Cluster) -> None:
    """Measure the output of many lines through the warden, compared with a plain file."""
    at.idle()
    program = at.folder / "shared" / "writes.py"
    program.write_text(WRITES)
    plain = _plain_write_s(at, program)
    document = sides.a_job(at, at.make_folder(), 1)
    spec = {"imageUri": sides.IMAGE, "command": [sys.executable, str(program)]}
    document["jobSpec"] = {
        "workerPoolSpecs": [
            {
                "machineSpec": {"machineType": "n1-standard-4"},
                "replicaCount": "1",
                "containerSpec": spec,
            }
        ]
    }
    name = submit(client, document)
    began = sides.await_state(client, name, "RUNNING", "SUCCEEDED")
    seconds = sides.await_state(client, name, "SUCCEEDED") - began
    measured.goals += [
        at_least(f"{LOG_MB} MB of lines", LOG_MB / seconds, 50.0, "MB/s"),
        at_most(f"{LOG_MB} MB of lines, over a plain file", seconds / plain, 1.5, "times"),
    ]


def _plain_write_s(at: Cluster, program: Path) -> float:
    folder = at.make_folder()
    steps = f"{sys.executable} {program} | cat > {folder}/plain; touch {folder}/done"
    script = at.script(f"touch {folder}/began; {steps}")
    at.command("sbatch", "--output=/dev/null", script)
    sides.wait_until((folder / "began").exists, "the program writes")
    began = time.time()
    sides.wait_until((folder / "done").exists, "the program has written all lines")
    return time.time() - began


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
            at_most(f"{GANG} first lines after the allocation", min(ours), 2.0, "s"),
            at_most(f"the same, over srun -N{GANG}", min(ours) / min(plain), 3.0, "times"),
        ]


def _allocated(at: Cluster, after: float) -> float:
    """Return the start time of the newest job; Slurm gives whole seconds."""
    starts = at.command("squeue", "-h", "-t", "all", "-o", "%S").split()
    newest = max(time.mktime(time.strptime(start, "%Y-%m-%dT%H:%M:%S")) for start in starts)
    return max(newest, after)


def measure(args: argparse.Namespace) -> Report:
    """Run all parts that are not skipped."""
    if reason := why_not():
        return Report(left_out={"all": reason})
    OUT.mkdir(parents=True, exist_ok=True)
    measured = Measured()
    skip = PARTS if args.dry else args.skip
    with sides.cluster() as at, sides.server_on(at) as server:
        client = Caller(server)
        starts = starts_of(measured, client, at, skip)
        first_lines(measured, at, starts, args.rounds, args.warm)
        compare(measured)
        measure_ends(measured, client, at, max(1 if args.dry else 3, args.rounds // 3))
        measure_rates(measured, client, at, args.jobs)
        if "log" not in skip:
            measure_log(measured, client, at)
        if "queue" not in skip:
            measure_queue(measured, client, server, at, args.queued)
    if "large" not in skip:
        measure_large(measured)
    if reason := charts.draw_first_lines(measured.seconds, OUT / "slurm.png"):
        measured.left_out["picture"] = reason
    left_out = dict.fromkeys(skip, "as asked") | measured.left_out
    return Report(goals=measured.goals, left_out=left_out, data={"seconds": measured.seconds})


def why_not() -> str:
    """Return the reason why this machine cannot run a cluster; empty if it can."""
    if os.geteuid() != 0:
        return "the benchmark needs root to start a cluster"
    return "" if shutil.which("slurmctld") else "Slurm is not installed"


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={"rounds": (15, 1), "warm": (1, 0), "jobs": (300, 2), "queued": (1000, 2)},
    add_options=lambda parser: parser.add_argument("--skip", nargs="*", default=(), choices=PARTS),
)
