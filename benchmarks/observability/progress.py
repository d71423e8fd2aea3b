"""Measures the CPU time of the progress of many running jobs, which a page requests every 10 s.

Each job has 8 GPUs and half an hour of samples in a file of its own; between two answers each
attempt writes a line, as those do that began within ten minutes.  Later ones write one in six.
"""

import argparse
import math
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final

from benchmarks.harness import Benchmark, Report, at_most
from benchmarks.observability.scrapes import Filler
from trainshed.engines.several import Engines
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.usage_file import UsageFile, read_newest_usage
from trainshed.model.attempt import AttemptKey
from trainshed.model.event_kinds import PLACED
from trainshed.model.resources import Node
from trainshed.model.usage import GpuUsage, ReplicaUsage, Spread, UsageLine, encode_lines
from trainshed.service.costs.prices import PriceSource
from trainshed.service.figures.progress import EVERY_S, ProgressReader
from trainshed.store.bulk import add_rows
from trainshed.store.opening import Store, open_store
from trainshed.store.tables import EVENTS
from trainshed.testing.fake_engine import FakeEngine

CPU_S_MAX: Final = 0.2
_LINES: Final = 30
_ANSWERS: Final = 20
_STEP_S: Final = 60.0
_NOISE: Final = random.Random(1)  # noqa: S311


class FolderEngine(FakeEngine):
    """Reads the usage of attempts from folders, as engines do."""

    root: Path

    def folder(self, key: AttemptKey) -> AttemptFolder:
        """Return the folder of an attempt."""
        return AttemptFolder(self.root / str(key.uid))

    def read_newest_usage(self, key: AttemptKey, after_s: float = -math.inf) -> Sequence[UsageLine]:
        """Read the newest lines from the folder of an attempt."""
        return read_newest_usage(self.folder(key), after_s)


def measure(args: argparse.Namespace) -> Report:
    """Measure the answers of a reader that starts, and those once it has read all jobs."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/trainshed.db")
        try:
            return _measure(store, Path(folder), args.jobs)
        finally:
            store.close()


def _measure(store: Store, root: Path, jobs: int) -> Report:
    store.see_nodes("", [Node(name="n1", vcpus=96, memory_gb=512.0)])
    Filler(store).add("RUNNING", jobs, 20)
    engine = FolderEngine([])
    engine.root = root
    keys = [AttemptKey(job.uid, 1) for job in store.newest_open(limit=jobs + 1) if job.attempt]
    _add_events(store, keys)
    now_s = time.time()
    for number in range(_LINES):
        _write(engine, keys, now_s - (_LINES - number) * 1.0, number)
    clock = count(1.0, EVERY_S)
    reader = ProgressReader(
        store, Engines.from_engine(engine), PriceSource(), monotonic=lambda: next(clock)
    )
    first, answers = _read_all(reader, jobs)
    later = []
    for number in range(_LINES, _LINES + _ANSWERS):
        _write(engine, keys, time.time(), number)
        later.append(_read(reader)[0])
    label = f"progress of {jobs} jobs of 8 GPUs"
    note = f"after a start; all figures after {EVERY_S * (answers - 1):g} s"
    return Report(
        goals=[
            at_most(f"{label}, first answers", statistics.median(first), CPU_S_MAX, "s CPU", note),
            at_most(f"{label}, a new sample each", statistics.median(later), CPU_S_MAX, "s CPU"),
        ],
        data={"first_s": first, "later_s": later},
    )


def _read_all(reader: ProgressReader, jobs: int) -> tuple[list[float], int]:
    """Read until all jobs have figures; return the CPU time of each answer and their number."""
    times = []
    while True:
        cpu_s, with_steps = _read(reader)
        times.append(cpu_s)
        if with_steps == jobs:
            return times, len(times)


def _read(reader: ProgressReader) -> tuple[float, int]:
    """Return the CPU time of an answer in seconds, and the number of jobs that have a step."""
    began_s = time.process_time()
    rows = reader.progress(None).rows
    return time.process_time() - began_s, sum(row.step is not None for row in rows)


def _add_events(store: Store, keys: Sequence[AttemptKey]) -> None:
    """Store that each attempt got its machines now, as the controller does."""
    stamp_ns = int(store.now().timestamp() * 1e9)
    event = {"attempt": 1, "stamp_ns": stamp_ns, "kind": PLACED, "message": "", "data": "{}"}
    rows = [{**event, "uid": key.uid} for key in keys]
    store._db.write(lambda tx: add_rows(tx, EVENTS, rows))  # noqa: SLF001


def _write(engine: FolderEngine, keys: Sequence[AttemptKey], at_s: float, number: int) -> None:
    """Append a line to the usage of each attempt."""
    gpus = {
        f"GPU-{gpu:032x}": GpuUsage(_spread(), _spread(), _spread(), _spread()) for gpu in range(8)
    }
    replica = ReplicaUsage(cpu=_spread(), memory=_spread(), step=(number, number + 1), total=10**6)
    lines = encode_lines(UsageLine(at_s, _STEP_S, {"workerpool0-0": replica}, gpus))
    for key in keys:
        folder = engine.folder(key)
        Path(folder.path).mkdir(exist_ok=True)
        UsageFile(folder).append(lines, at_s)


def _spread() -> Spread:
    mean = _NOISE.random()
    return Spread(mean / 2, mean, 2 * mean)


BENCHMARK = Benchmark(description=__doc__ or "", measure=measure, sizes={"jobs": (1000, 5)})
