"""Measures from a submission to the first line, from the last exit to the end, and cancels."""

import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.harness import ROOT, at_most, tell
from benchmarks.slurm import sides
from benchmarks.slurm.measured import Measured
from benchmarks.slurm.sides import Caller, Cluster, moments, submit

OUT = ROOT / "build" / "slurm"


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
    measured: Measured, client: Caller, at: Cluster, parts: frozenset[str]
) -> dict[str, tuple[int, Callable[[Path], None]]]:
    """Return the sides that can run on this machine: the number of tasks, and how to start them."""
    starts: dict[str, tuple[int, Callable[[Path], None]]] = {
        "ours": (1, lambda folder: by_us(client, at, folder, 1)),
        "sbatch": (1, lambda folder: sides.plain_sbatch(at, folder, 1)),
        "ours, 4 replicas": (4, lambda folder: by_us(client, at, folder, 4)),
        "sbatch, 4 replicas": (4, lambda folder: sides.plain_sbatch(at, folder, 4)),
    }
    for package, start in (("submitit", sides.by_submitit), ("torchx", sides.by_torchx)):
        if package not in parts:
            continue
        if (python := sides.installed(OUT, package)) is None:
            measured.left_out[package] = "cannot be installed"
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
