"""Measures many short jobs beside plain sbatch: their CPU, their hand-over, and how they drain.

What Slurm counts is counted: submissions by sdiag, CPU by a cgroup with all slurmd.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import at_least, at_most, tell
from benchmarks.slurm import counts, sides
from benchmarks.slurm.long_queue import SLOTS
from benchmarks.slurm.measured import Measured
from benchmarks.slurm.sides import Caller, Cluster, moments, submit

#: The length of a job in the drain.
JOB_S = 5.0
#: The seconds in which the CPU of idle nodes is counted.
_IDLE_S = 3.0
_DRAIN_S_MAX = 600.0


def measure_cpu(measured: Measured, client: Caller, at: Cluster, jobs: int) -> None:
    """Measure the CPU time of a job that does nothing, on its node, without that of idle nodes."""
    if reason := counts.why_no_cpu():
        measured.left_out["cpu"] = reason
        return
    with counts.counted_nodes(at) as read_ms:
        at.idle()
        before_ms = read_ms()
        time.sleep(_IDLE_S)
        idle_ms_per_s = (read_ms() - before_ms) / _IDLE_S

        def count_ms(run: Callable[[], object]) -> float:
            run()  # the first job of a side writes files for all
            at.idle()
            began, before_ms = time.monotonic(), read_ms()
            for _ in range(jobs):
                run()
            at.idle()
            passed_s = time.monotonic() - began
            return (read_ms() - before_ms - passed_s * idle_ms_per_s) / jobs

        plain = count_ms(lambda: _run_plainly(at))
        ours = count_ms(lambda: _run_by_us(client))
    note = f"plain sbatch {plain:.0f} ms"
    measured.goals += [
        at_most("CPU of a job on its node", ours, 100.0, "ms", note),
        at_most("CPU of a job, over plain sbatch", ours / plain, None, "times"),
    ]


def _run_plainly(at: Cluster) -> None:
    flags = ("--wait", "-n1", "-c4", "--mem=15360", "--output=/dev/null")
    at.command("sbatch", *flags, at.script("exec /bin/true"))


def _run_by_us(client: Caller) -> None:
    name = submit(client, sides.job_of(["/bin/true"], 1))
    sides.await_state(client, name, "SUCCEEDED")


def measure_handover(measured: Measured, client: Caller, at: Cluster, jobs: int) -> None:
    """Measure how fast jobs enter the queue of a full cluster, by Slurm's own count."""
    at.idle()
    folder, go = at.make_folder(), at.folder / "shared" / "go-handover"
    for _ in range(SLOTS):
        sides.plain_sbatch(at, folder, 1, str(go))
    moments(folder, SLOTS)
    rates = {}
    for side, start in (
        ("sbatch", lambda: sides.plain_sbatch(at, folder, 1, str(go))),
        ("ours", lambda: submit(client, sides.a_job(at, folder, 1, str(go)))),
    ):
        before, began = counts.count_submissions(at), time.time()
        for _ in range(jobs):
            start()
        rates[side] = jobs / (counts.await_submissions(at, before + jobs) - began)
    go.touch()
    moments(folder, SLOTS + 2 * jobs, _DRAIN_S_MAX)
    tell(f"{jobs} jobs to a full cluster: {rates['ours']:.1f}/s; sbatch {rates['sbatch']:.1f}/s")
    ratio, note = rates["ours"] / rates["sbatch"], f"a loop of sbatch {rates['sbatch']:.1f}/s"
    measured.goals += [
        at_least(f"handed over, of {jobs} jobs", rates["ours"], None, "/s", note),
        at_least("handed over, beside a loop of sbatch", ratio, 0.75, "times"),
    ]


def measure_drain(measured: Measured, client: Caller, at: Cluster, jobs: int) -> None:
    """Measure how fast jobs of five seconds run on all slots of the cluster."""
    plain = _drain(at, jobs, lambda folder: _sleep_plainly(at, folder))
    ours = _drain(at, jobs, lambda folder: _sleep_by_us(client, at, folder))
    note = f"plain sbatch {plain:.2f}/s, all slots always in use {SLOTS / JOB_S:.2f}/s"
    measured.goals += [
        at_least(f"{jobs} jobs of {JOB_S:g} s on {SLOTS} slots", ours, None, "/s", note),
        at_least("drained, beside plain sbatch", ours / plain, 0.9, "times"),
    ]


def _drain(at: Cluster, jobs: int, start: Callable[[Path], object]) -> float:
    """Return the jobs a second from the first submission to the end of the last job."""
    at.idle()
    folder, began = at.make_folder(), time.time()
    for _ in range(jobs):
        start(folder)
    last_start = moments(folder, jobs, _DRAIN_S_MAX)[-1]
    return jobs / (last_start + JOB_S - began)


def _sleep_plainly(at: Cluster, folder: Path) -> None:
    sides.plain_sbatch(at, folder, 1, "", str(JOB_S))


def _sleep_by_us(client: Caller, at: Cluster, folder: Path) -> None:
    argv = [sys.executable, str(at.program), str(folder), "", str(JOB_S)]
    submit(client, sides.job_of(argv, 1))
