"""How soon a cancelled job's GPU is empty: no process of it, and memory as before.

The job trains; the time begins with the call that cancels it.  The driver is asked, not the server.
"""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.gpu.bench import Bench, Row, Unmeasured
from benchmarks.gpu.jobs import WAIT_S_MAX, gpu_server, worker_job
from benchmarks.gpu.machine import opened_nvml
from benchmarks.gpu.steps import words
from benchmarks.service.servers import Server

MIB = 1 << 20
ROUNDS, EMPTY_S_MAX = 4, 2.0
SLACK_MIB, TAKEN_MIB = 16, 200
ENDLESS = 1 << 40
LOOK_S = 0.005


def measure(bench: Bench) -> list[Row]:
    """The worst and the median of some rounds."""
    rounds = 2 if bench.dry else ROUNDS
    with gpu_server(bench) as server, used_memory(bench) as used_mib:
        durations = [emptied_s(bench, server, used_mib) for _ in range(rounds)]
    bench.tell(f"empty after {', '.join(f'{seconds:.2f}' for seconds in durations)} s")
    definition = f"the call that cancels to no process and memory as before + {SLACK_MIB} MiB"
    worst = Row(
        name="a cancelled job's GPU is empty, worst",
        value=max(durations),
        unit="s",
        goal=EMPTY_S_MAX,
        better="less",
        of=f"{definition}, worst of {rounds}",
    )
    middle = Row(
        name="a cancelled job's GPU is empty, median",
        value=statistics.median(durations),
        unit="s",
        goal=EMPTY_S_MAX,
        better="less",
        of=f"{definition}, median of {rounds}",
    )
    return [worst, middle]


def emptied_s(bench: Bench, server: Server, used_mib: Callable[[], float]) -> float:
    """Measure one round."""
    before = used_mib()
    with worker_job(server) as (job, worker):
        if not bench.dry:
            worker.seconds(1, words(bench, "resnet"))
            until(lambda: used_mib() > before + TAKEN_MIB, "the job has taken no memory of the GPU")
            worker.begin(ENDLESS, words(bench, "resnet"))
            time.sleep(0.5)  # in the midst of its steps
        began = time.monotonic()
        job.cancel()
        until(
            lambda: not lives(worker.pid) and used_mib() <= before + SLACK_MIB,
            f"memory stays {used_mib() - before:.0f} MiB over the start's",
        )
        return time.monotonic() - began


def until(is_so: Callable[[], bool], fault: str) -> None:
    """Poll until a condition holds.  Raises Unmeasured if it never does."""
    deadline = time.monotonic() + WAIT_S_MAX / 2
    while not is_so():
        if time.monotonic() > deadline:
            raise Unmeasured(fault)
        time.sleep(LOOK_S)


def lives(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextlib.contextmanager
def used_memory(bench: Bench) -> Iterator[Callable[[], float]]:
    """Yield a function that returns the used memory of all GPUs, MiB; 0 for fake GPUs."""
    if bench.dry:
        yield lambda: 0.0
        return
    with opened_nvml() as nvml:
        gpus = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        yield lambda: sum(nvml.nvmlDeviceGetMemoryInfo(gpu).used for gpu in gpus) / MIB
