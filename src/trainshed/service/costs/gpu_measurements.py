"""Reads what was measured of the GPUs of attempts, and remembers it for a while."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from trainshed.engines.capabilities import SupportsUsage
from trainshed.engines.several import Engines
from trainshed.model.attempt import AttemptKey
from trainshed.planning.goodput import JobTimes
from trainshed.planning.machine_parts import GpuSeries
from trainshed.service.costs.gpu_series import measure_gpus
from trainshed.service.upkeep.paced_reads import PacedReads
from trainshed.store.opening import Store

#: The last samples of an attempt are there so many seconds after its end.
SETTLED_S: Final = 60.0
#: Seconds for which the samples of such an attempt are remembered.
_SETTLED_FOR_S: Final = 3600.0
#: The most measurements in memory; one takes 160 bytes.
MEASUREMENTS_MAX: Final = 100_000

#: What was measured of the GPUs of an attempt, by UUID.
AttemptGpus = Mapping[str, GpuSeries]
#: An attempt, and whether it had ended when it was read.
_Key = tuple[AttemptKey, bool]


class GpuMeasurements:
    """The measurements of the attempts that were read last.  Thread-safe."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Read nothing before the first call."""
        self._readings = PacedReads[_Key, AttemptGpus](MEASUREMENTS_MAX, _count, monotonic)

    def read(
        self, store: Store, engines: Engines, uid: int, times: JobTimes
    ) -> Mapping[int, AttemptGpus]:
        """Return what was measured, by attempt; an attempt that cannot be read is absent."""
        gpus = max((attempt.gpus for attempt in times.attempts), default=0)
        measured: dict[int, AttemptGpus] = {}
        if not gpus:
            return measured
        skew_s, now_s = store.clock_skew_s(), store.now().timestamp()
        for attempt in times.attempts:
            key, end_s = AttemptKey(uid, attempt.attempt), attempt.ended_s
            is_settled = end_s is not None and now_s - end_s > SETTLED_S
            read = partial(_measure, engines, key, skew_s)
            try:
                measured[attempt.attempt] = self._readings.get(
                    (key, end_s is not None), read, _SETTLED_FOR_S if is_settled else 0.0
                )
            except OSError:  # its engine is away; the next call asks it again
                continue
        return measured


def _count(gpus: AttemptGpus) -> int:
    return 1 + sum(1 + len(series.measurements) for series in gpus.values())


def _measure(engines: Engines, key: AttemptKey, skew_s: float) -> AttemptGpus:
    """Return what was measured of an attempt.  Raises OSError if it cannot be read now."""
    engine = engines.get_by_attempt(key)
    lines = engine.read_usage(key) if isinstance(engine, SupportsUsage) else ()
    return measure_gpus(lines, skew_s)
