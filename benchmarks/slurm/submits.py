"""Measures the cost of a job on a Slurm cluster beside plain sbatch, srun, submitit and TorchX.

    python -m benchmarks slurm [--rounds 10] [--jobs 300] [--queued 1000] [--only PART ...]
        [--skip PART ...]

The benchmark needs root and Debian's packages of Slurm: it starts clusters of 6 and of 100 nodes on
this machine.  All sides run in turn in each round, so that other work on the machine slows all of
them.  submitit and TorchX are installed into ``build/slurm`` if possible; slurm.png is drawn there.
The dry form compares one job with sbatch.
"""

import argparse
import os
import shutil
from collections.abc import Callable, Mapping

from benchmarks import charts
from benchmarks.harness import Benchmark, Report
from benchmarks.slurm import first_lines, gangs, logs, long_queue, many_jobs, sides
from benchmarks.slurm.first_lines import OUT
from benchmarks.slurm.measured import Measured
from benchmarks.slurm.sides import Caller, Cluster

#: Parts on the small cluster, in their order.
SMALL = ("first-lines", "ends", "cpu", "handover", "drain", "log", "memory", "queue")
#: Parts that the dry form skips: each takes minutes.
LONG = ("log", "queue", "large", "submitit", "torchx")
PARTS = (*SMALL, "large", "submitit", "torchx")


def choose_parts(args: argparse.Namespace) -> frozenset[str]:
    """Return the parts to run."""
    parts = frozenset(args.only or PARTS) - frozenset(args.skip)
    return parts.difference(LONG) if args.dry else parts


def measure(args: argparse.Namespace) -> Report:
    """Run the chosen parts."""
    if reason := why_not():
        return Report(left_out={"all": reason})
    OUT.mkdir(parents=True, exist_ok=True)
    measured, parts = Measured(), choose_parts(args)
    if parts.intersection(SMALL):
        measure_small(measured, args, parts)
    if "large" in parts:
        gangs.measure_large(measured)
    if measured.seconds and (
        reason := charts.draw_first_lines(measured.seconds, OUT / "slurm.png")
    ):
        measured.left_out["picture"] = reason
    left_out = {part: "as chosen" for part in PARTS if part not in parts} | measured.left_out
    return Report(goals=measured.goals, left_out=left_out, data={"seconds": measured.seconds})


def measure_small(measured: Measured, args: argparse.Namespace, parts: frozenset[str]) -> None:
    """Run the chosen parts that need the small cluster."""
    with sides.cluster() as at, sides.server_on(at) as server:
        client = Caller(server)
        measures: Mapping[str, Callable[[], None]] = {
            "first-lines": lambda: measure_first_lines(measured, client, at, args, parts),
            "ends": lambda: first_lines.measure_ends(measured, client, at, -(-args.rounds // 3)),
            "cpu": lambda: many_jobs.measure_cpu(measured, client, at, args.short),
            "handover": lambda: many_jobs.measure_handover(measured, client, at, args.handed),
            "drain": lambda: many_jobs.measure_drain(measured, client, at, args.jobs),
            "log": lambda: logs.measure_log(measured, client, at),
            "memory": lambda: gangs.measure_memory(measured, client, at),
            "queue": lambda: long_queue.measure_queue(measured, client, server, at, args.queued),
        }
        for part in SMALL:
            if part in parts:
                measures[part]()


def measure_first_lines(
    measured: Measured, client: Caller, at: Cluster, args: argparse.Namespace, parts: frozenset[str]
) -> None:
    """Measure the first lines of all sides in turn, and compare them."""
    starts = first_lines.starts_of(measured, client, at, parts)
    first_lines.first_lines(measured, at, starts, args.rounds, args.warm)
    first_lines.compare(measured)


def why_not() -> str:
    """Return the reason why this machine cannot run a cluster; empty if it can."""
    if os.geteuid() != 0:
        return "the benchmark needs root to start a cluster"
    return "" if shutil.which("slurmctld") else "Slurm is not installed"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose parts."""
    parser.add_argument("--only", nargs="*", default=(), choices=PARTS, help="run these parts")
    parser.add_argument("--skip", nargs="*", default=(), choices=PARTS, help="skip these parts")


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={
        "rounds": (10, 1),
        "warm": (1, 0),
        "short": (20, 1),
        "handed": (100, 2),
        "jobs": (300, 2),
        "queued": (1000, 2),
    },
    add_options=add_options,
)
