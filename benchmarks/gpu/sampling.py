"""What it costs a training that use, memory and power of its GPU are sampled every second.

One trainer, in turns with the server's own sampler and without.  As in a server, the sampler is a
thread of another process: of this one.
"""

import statistics
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from benchmarks.gpu.bench import Bench, Row, Unmeasured, in_turns, median_ratio
from benchmarks.gpu.jobs import bare_worker
from benchmarks.gpu.steps import block, words
from trainshed.engines.local.devices import nvml as driver
from trainshed.engines.local.devices import readings
from trainshed.engines.local.devices.sampler import Sampler

COST_PERCENT_MAX = 0.5
PAIRS, BLOCK_S = 8, 2.0
#: Before each block, with the sampler or without: the sampler opens the driver in this time.
SETTLED_S = 0.5


def measure(bench: Bench) -> Iterator[Row]:
    """How long a sample takes, and what a sample a second costs a step."""
    if not bench.dry:
        yield one_sample()
    pairs, block_s = (2, 0.02) if bench.dry else (PAIRS, BLOCK_S)
    arguments = words(bench, "resnet")
    with bare_worker() as worker:
        steps = block(worker, arguments, block_s)

        def settled_s() -> float:
            time.sleep(SETTLED_S)
            return worker.seconds(steps, arguments)

        def sampled_s() -> float:
            sampler = Sampler()
            sampler.start()
            try:
                return settled_s()
            finally:
                sampler.close()

        timings = in_turns(sampled_s, settled_s, pairs)
    yield Row(
        name="cost of sampling every second",
        value=100 * (median_ratio(timings) - 1),
        unit="% of a step",
        goal=COST_PERCENT_MAX,
        better="less",
        of=f"a resnet's steps with the sampler over those without, median of {pairs} pairs",
    )


def one_sample(count: int = 50) -> Row:
    """The server's reading of all GPUs.  Raises Unmeasured where the driver does not answer."""
    with driver.session() as nvml:
        devices = [] if nvml is None else list(driver.devices(nvml))
        if not devices:
            raise Unmeasured("NVML names no GPU")
        samples_ms = []
        for _ in range(count):
            began = time.perf_counter()
            for _, handle in devices:
                readings.reading(nvml, readings.GpuQuery(nvml, handle), datetime.now(UTC))
            samples_ms.append(1000 * (time.perf_counter() - began))
    return Row(
        name="a sample of all GPUs",
        value=statistics.median(samples_ms),
        unit="ms",
        goal=None,
        better="less",
        of=f"all figures that a server reads, median of {count}",
    )
