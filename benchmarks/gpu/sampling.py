"""What it costs a training that use, memory, power and energy of its GPU are sampled every second.

One trainer, in turns with the server's own sampler and without.  As in a server, the sampler is a
thread of another process: of this one.
"""

import statistics
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from benchmarks.gpu.bench import Bench, Row, Unmeasured, in_turns, median_ratio
from benchmarks.gpu.jobs import bare_worker
from benchmarks.gpu.steps import block, words
from trainshed.engines.local.devices import nvml as driver
from trainshed.engines.local.devices import readings
from trainshed.engines.local.devices.gpus import GpuDevice
from trainshed.engines.local.devices.sampler import Sampler

COST_PERCENT_MAX = 0.5
CPU_PERCENT_MAX = 0.1
#: Ten seconds, in which NVML's means of the power and its counter cover the same time.
ENERGY_SAMPLES, PAUSE_S = 21, 0.5
PAIRS, BLOCK_S = 8, 2.0
#: Before each block, with the sampler or without: the sampler opens the driver in this time.
SETTLED_S = 0.5


def measure(bench: Bench) -> Iterator[Row]:
    """How long a sample takes, and what a sample a second costs a step."""
    if not bench.dry:
        yield from one_sample()
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
    if not bench.dry:
        yield energy_of_power()


def one_sample(count: int = 50) -> Iterator[Row]:
    """The server's reading of all GPUs.  Raises Unmeasured where the driver does not answer."""
    with driver.session() as nvml:
        devices = list_devices(nvml)
        samples_ms = []
        cpu_s = time.thread_time()
        for _ in range(count):
            began = time.perf_counter()
            for _, handle in devices:
                readings.reading(nvml, readings.GpuQuery(nvml, handle), datetime.now(UTC))
            samples_ms.append(1000 * (time.perf_counter() - began))
        cpu_s = time.thread_time() - cpu_s
    yield Row(
        name="a sample of all GPUs",
        value=statistics.median(samples_ms),
        unit="ms",
        goal=None,
        better="less",
        of=f"all figures that a server reads, median of {count}",
    )
    yield Row(
        name="CPU of a sample every second",
        value=100 * cpu_s / count / len(devices),
        unit="% of a core a GPU",
        goal=CPU_PERCENT_MAX,
        better="less",
        of=f"CPU time of the sampling thread over {count} samples",
    )


def energy_of_power() -> Row:
    """The driver's counter of energy over the sum of the power, of the first GPU for ten seconds.

    Raises Unmeasured where the driver has no counter.
    """
    with driver.session() as nvml:
        _, handle = list_devices(nvml)[0]
        samples = []
        for _ in range(ENERGY_SAMPLES):
            query = readings.GpuQuery(nvml, handle)
            samples.append((time.monotonic(), readings.reading(nvml, query, datetime.now(UTC))))
            time.sleep(PAUSE_S)
    (began_s, first), *_, (ended_s, last) = samples
    powers = [sample.power_w for _, sample in samples if sample.power_w is not None]
    if first.energy_j is None or last.energy_j is None or not powers:
        raise Unmeasured("NVML counts no energy here: the server sums the power")
    summed_j = statistics.fmean(powers) * (ended_s - began_s)
    return Row(
        name="energy by counter over power",
        value=(last.energy_j - first.energy_j) / summed_j,
        unit="",
        goal=None,
        better="less",
        of=f"{ENERGY_SAMPLES} samples, {PAUSE_S:g} s apart; 1 is the same",
    )


def list_devices(nvml: Any) -> list[tuple[GpuDevice, Any]]:
    """The GPUs with their handles.  Raises Unmeasured where there is none."""
    devices = [] if nvml is None else list(driver.devices(nvml))
    if not devices:
        raise Unmeasured("NVML names no GPU")
    return devices
