"""What the tests of metrics share: samples of a page, GPUs, and a database that does not answer."""

import threading

from prometheus_client.parser import text_string_to_metric_families

from trainshed.engines.capabilities import GpuNow
from trainshed.model.gpus import GpuSample, GpuState, NodeGpu
from trainshed.store.base import StoreFault

HOSTILE = 'a"b\\c\nd{}=,é'


def samples_of(text, parse=text_string_to_metric_families):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def names_of(text):
    return {family.name for family in text_string_to_metric_families(text) if family.samples}


def gpus(count, attempt=None):
    reading = GpuSample(
        at=None, used_bytes=1, use=0.5, power_w=300.0, energy_j=1e6, temperature_c=60,
        ecc_errors=0, throttled=(),
    )  # fmt: skip
    state = GpuState.HELD if attempt else GpuState.FREE
    return [
        GpuNow(
            gpu=NodeGpu(uuid=f"GPU-{n}", index=n, type="H100", memory_bytes=1, state=state),
            attempt=attempt, reading=reading, idle_s=1.0, driver="580",
        )
        for n in range(count)
    ]  # fmt: skip


class Away:
    """A store whose database does not answer."""

    def __init__(self, fault=None):
        self.fault = fault
        self.answers = threading.Event()

    def clock_skew_s(self):
        return 0.0

    def nodes(self, **_):
        if self.fault:
            raise self.fault
        self.answers.wait()
        raise StoreFault("it was away")
