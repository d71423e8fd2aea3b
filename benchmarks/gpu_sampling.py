"""What it costs a training that use, memory and power of its GPU are sampled every second.

One trainer, in turns with sampling and without.  As in a server, another process samples: this one.
"""

import contextlib
import importlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from gpu_bench import Bench, Row, in_turns, median_ratio
from gpu_jobs import bare_worker
from gpu_machine import opened_nvml
from gpu_steps import block, words

COST_PERCENT_MAX = 0.5
EVERY_S = 1.0
#: As long as two samples, one of them at the beginning, are a second apart.
PAIRS, BLOCK_S = 10, 2.0

Sample = Callable[[], object]


def measure(bench: Bench) -> list[Row]:
    """The cost to a step, and how long a sample takes."""
    pairs, block_s = (2, 0.02) if bench.dry else (PAIRS, BLOCK_S)
    asked = words(bench, "resnet")
    with sampling(bench) as sample, bare_worker() as worker:
        steps = block(worker, asked, block_s)

        def sampled() -> float:
            with every_second(sample):
                return worker.seconds(steps, asked)

        found = in_turns(sampled, lambda: worker.seconds(steps, asked), pairs)
        sample_ms = [1000 * taken_s(sample) for _ in range(5 if bench.dry else 50)]
    bench.tell(
        f"a sample takes {statistics.median(sample_ms):.2f} ms, at most {max(sample_ms):.2f}"
    )
    cost = Row(
        name="cost of sampling every second",
        value=100 * (median_ratio(found) - 1),
        unit="% of a step",
        goal=COST_PERCENT_MAX,
        better="less",
        of=f"a resnet's steps with sampling over those without, median of {pairs} pairs",
    )
    one = Row(
        name="a sample of all GPUs",
        value=statistics.median(sample_ms),
        unit="ms",
        goal=None,
        better="less",
        of="one reading of use, memory, power and what else the server reads",
    )
    return [cost, one]


@contextlib.contextmanager
def every_second(sample: Sample) -> Iterator[None]:
    """Sample now and every second until the end of the block."""
    is_over = threading.Event()

    def run() -> None:
        sample()
        while not is_over.wait(EVERY_S):
            sample()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def taken_s(sample: Sample) -> float:
    """How long one takes."""
    began = time.perf_counter()
    sample()
    return time.perf_counter() - began


@contextlib.contextmanager
def sampling(bench: Bench) -> Iterator[Sample]:
    """What samples every GPU once; in a rehearsal it looks at the clock."""
    if bench.dry:
        yield time.monotonic
        return
    with opened_nvml() as nvml:
        gpus = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        yield lambda: [reading(nvml, gpu) for gpu in gpus]


def reading(nvml: Any, gpu: Any) -> object:
    """What the server reads of one GPU; where it reads nothing yet, the three figures."""
    try:
        readings = importlib.import_module("trainshed.engines.local.devices.readings")
    except ImportError:
        use = nvml.nvmlDeviceGetUtilizationRates(gpu)
        return use, nvml.nvmlDeviceGetMemoryInfo(gpu), nvml.nvmlDeviceGetPowerUsage(gpu)
    return readings.reading(nvml, readings.Asked(nvml, gpu), datetime.now(UTC))
