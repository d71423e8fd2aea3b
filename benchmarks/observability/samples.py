"""Measures what samples of usage cost a job, its supervisor and the disk.

A program that computes runs in pairs, with samples and without; it prints the time and the CPU
time of a fixed amount of work.  Samples come once a second, ten times as often as by default.  The
CPU time of a job is that of the program and of its supervisor.

The memory is what the supervisor of such a job needs more than that of one without samples.

The size, and the memory once lines were packed, are those of a day of a job with 8 GPUs and 2
replicas, in a process that has only what a supervisor has (``day``).
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.harness import ROOT, Benchmark, Goal, Report, at_most, tell
from benchmarks.launch.isolation import wait_for
from benchmarks.observability.memory import read_memory_mb
from trainshed.engines.local.engine import LocalEngine
from trainshed.engines.local.options import LocalOptions
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.observe import AttemptRecords
from trainshed.model.attempt import AttemptKey, Phase
from trainshed.model.launch_plan import Environment, LaunchPlan, Owner, ReplicaPlan
from trainshed.model.log_line import SEGMENT_PATTERN, decode
from trainshed.model.roles import Role
from trainshed.model.stopping import StopOrder, StopReason

SHARE_MAX: Final = 1.01
DAY_MB_MAX: Final = 0.6
MEMORY_MB_MAX: Final = 0.3
#: Seconds between two samples of the measured jobs.
EVERY_S: Final = 1.0
#: Seconds between two samples by default.
DEFAULT_S: Final = 10.0

#: Does the work, reports its steps, prints its seconds, and waits until its supervisor is measured.
_PROGRAM: Final = """
import json, os, sys, time
began = time.perf_counter(), time.process_time()
for step in range(int(sys.argv[1])):
    if path := os.environ.get("TRAINSHED_PROGRESS_FILE"):
        with open(path + ".new", "w") as file:
            json.dump({"step": step, "total": int(sys.argv[1]), "loss": 1 / (step + 1)}, file)
        os.replace(path + ".new", path)
    total = 0
    for number in range(1_000_000):
        total += number * number % 7
print(time.perf_counter() - began[0], time.process_time() - began[1], flush=True)
time.sleep(600)
"""


class Run(NamedTuple):
    """The figures of one job."""

    work_s: float
    """How long the work took."""
    work_cpu_s: float
    """The CPU time of the work."""
    supervisor_cpu_s: float
    supervisor_mb: float
    """The memory that only the supervisor has, in MB: most of it is shared with its fork server."""

    @property
    def cpu_s(self) -> float:
        """The CPU time of the job."""
        return self.work_cpu_s + self.supervisor_cpu_s


def measure(args: argparse.Namespace) -> Report:
    """Run the pairs, and simulate a day."""
    runs = _run_pairs(args.pairs, args.work)
    day = _simulate_day(args.day)
    return Report(
        goals=[*_judge(runs, day)],
        data={
            "runs": {f"{every_s:g}": [*map(Run._asdict, rows)] for every_s, rows in runs.items()},
            "day": day,
        },
    )


def _judge(runs: Mapping[float, list[Run]], day: Mapping[str, float]) -> Iterator[Goal]:
    pairs = [*zip(runs[EVERY_S], runs[0.0], strict=True)]
    share = statistics.median(ours.cpu_s / theirs.cpu_s for ours, theirs in pairs)
    seconds = statistics.median(ours.work_s / theirs.work_s for ours, theirs in pairs)
    name = f"CPU-bound job with samples / without ({len(pairs)} pairs)"
    note = f"CPU time; samples every {EVERY_S:g} s; time {seconds:.3f}"
    yield at_most(name, share, SHARE_MAX, "times", note)
    cores = statistics.median(
        (ours.supervisor_cpu_s - theirs.supervisor_cpu_s) / ours.work_s for ours, theirs in pairs
    )
    by_default = cores * EVERY_S / DEFAULT_S * 100
    yield at_most("CPU of the supervisor for samples, a replica", by_default, 0.05, "% of a core")
    needed_mb = statistics.median(
        ours.supervisor_mb - theirs.supervisor_mb for ours, theirs in pairs
    )
    yield at_most("memory of a supervisor for samples", needed_mb, MEMORY_MB_MAX, "MB")
    note = "once it has packed lines; not judged"
    yield at_most("memory for samples, a day of 8 GPUs", day["day_mb"], None, "MB", note)
    note = f"{day['lines_mb']:.2f} MB of lines"
    yield at_most("usage of 8 GPUs and 2 replicas, a day", day["file_mb"], DAY_MB_MAX, "MB", note)


def _run_pairs(pairs: int, work: int) -> dict[float, list[Run]]:
    """Run jobs with samples and without, in turns; the first pair does not count."""
    runs: dict[float, list[Run]] = {EVERY_S: [], 0.0: []}
    order = random.Random(1)  # noqa: S311
    with tempfile.TemporaryDirectory() as folder:
        engines = {every_s: _make_engine(Path(folder), every_s) for every_s in runs}
        for number in range(pairs + 1):
            turns = list(runs)
            order.shuffle(turns)
            for every_s in turns:
                run = _run(*engines[every_s], number + 1, work if number else 1)
                runs[every_s] += [run] if number else []
            tell(f"pair {number} of {pairs}")
        for _, engine in engines.values():
            engine.close()
    return runs


def _make_engine(folder: Path, every_s: float) -> tuple[Path, LocalEngine]:
    root = folder / f"every-{every_s:g}"
    return root, LocalEngine(root, LocalOptions(find_gpus=tuple, usage_s=every_s))


def _run(root: Path, engine: LocalEngine, number: int, work: int) -> Run:
    """Run a job until its work is done, measure its supervisor, and stop it."""
    key, folder = AttemptKey(number, 1), AttemptFolder(root / str(number) / "1")
    replica = ReplicaPlan(
        role=Role.PRIMARY,
        index=0,
        task_name="primary-0",
        argv=(sys.executable, "-c", _PROGRAM, str(work)),
    )
    plan = LaunchPlan(
        job_id="job",
        attempt=1,
        replicas=(replica,),
        environment=Environment(python=sys.executable),
        owner=Owner(project="benchmark", number=0),
    )
    engine.launch(key, plan, ())
    wait_for(lambda: len(_read_seconds(folder)) > 0)
    work_s, work_cpu_s = _read_seconds(folder)
    pid = _read_supervisor_pid(folder)
    run = Run(work_s, work_cpu_s, _read_cpu_s(pid), read_memory_mb(pid))
    engine.stop(key, StopOrder(grace_s=0.0, reason=StopReason.CANCEL, message=""))
    wait_for(lambda: engine.observe([key])[0].phase is Phase.ENDED)
    return run


def _read_seconds(folder: AttemptFolder) -> list[float]:
    """Return the numbers that the program has printed; empty: it has not printed yet."""
    for path in sorted(Path(folder.log).glob(SEGMENT_PATTERN)):
        for data in path.read_bytes().rpartition(b"\n")[0].split(b"\n"):
            line = decode(data) if data else None
            if line is not None and line.task_name == "primary-0":
                return [*map(float, line.text.split())]
    return []


def _read_supervisor_pid(folder: AttemptFolder) -> int:
    records = AttemptRecords()
    records.read(folder.records)
    if records.began is None:
        raise SystemExit(f"the supervisor has not begun; read {folder.words}")
    return records.began.pid


def _read_cpu_s(pid: int) -> float:
    """Return the CPU time of a process without its children, from the scheduler's nanoseconds."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def _simulate_day(minutes: int) -> dict[str, float]:
    """Write the usage of a job in two processes; the first one only compiles the modules."""
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            argv = [sys.executable, "-m", "benchmarks.observability.day", str(minutes), folder]
            done = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


BENCHMARK = Benchmark(
    description=__doc__ or "",
    measure=measure,
    sizes={"pairs": (20, 1), "work": (60, 5), "day": (1440, 90)},
)
