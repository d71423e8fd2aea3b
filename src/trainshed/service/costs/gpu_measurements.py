"""Reads what was measured of the GPUs of attempts, and remembers it for a while.

A week of samples takes a second of processor time to read, and an open page asks every 15 seconds.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from trainshed.engines.capabilities import SupportsUsage
from trainshed.engines.several import Engines
from trainshed.model.attempt import AttemptKey
from trainshed.model.usage import UsageLine
from trainshed.planning.goodput import AttemptTimes, JobTimes
from trainshed.planning.usage_days import GpuMeasurement
from trainshed.service.costs.usage_rows import measure_gpus
from trainshed.store.opening import Store

#: The share of time that readings of one attempt may take.
SHARE_MAX: Final = 0.05
#: The last samples of an attempt are there so many seconds after its end.
SETTLED_S: Final = 60.0
#: Seconds for which the samples of such an attempt are remembered.
_SETTLED_FOR_S: Final = 3600.0
#: The most measurements in memory; one takes 160 bytes.
MEASUREMENTS_MAX: Final = 100_000


#: An attempt, and whether it had ended when it was read.
_Key = tuple[AttemptKey, bool]


class _Reading(NamedTuple):
    measurements: Sequence[GpuMeasurement]
    valid_until_s: float
    """By the monotonic clock."""


class GpuMeasurements:
    """The measurements of the attempts that were read last.  Thread-safe."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Read nothing before the first call."""
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._readings: OrderedDict[_Key, _Reading] = OrderedDict()

    def read(
        self, store: Store, engines: Engines, uid: int, times: JobTimes
    ) -> Mapping[int, Sequence[GpuMeasurement]]:
        """Return what was measured, by attempt; an attempt that cannot be read is absent.

        A reading is used again for a time that grows with what it took.
        """
        gpus = max((attempt.gpus for attempt in times.attempts), default=0)
        if not gpus:
            return {}
        measured: dict[int, Sequence[GpuMeasurement]] = {}
        for attempt in times.attempts:
            key = AttemptKey(uid, attempt.attempt), attempt.ended_s is not None
            reading = self._find(key)
            if reading is None:
                began_s = self._monotonic()
                try:
                    lines = _read_lines(engines, key[0])
                except OSError:  # its engine is away; the next call reads it
                    continue
                measurements = measure_gpus(lines, gpus, store.clock_skew_s())
                is_settled = _is_settled(attempt, store.now().timestamp())
                reading = self._remember(key, measurements, began_s, is_settled=is_settled)
            measured[attempt.attempt] = reading.measurements
        return measured

    def _find(self, key: _Key) -> _Reading | None:
        """Return a reading that is valid now; None without one."""
        with self._lock:
            reading = self._readings.get(key)
            if reading is None or self._monotonic() >= reading.valid_until_s:
                return None
            self._readings.move_to_end(key)
            return reading

    def _remember(
        self,
        key: _Key,
        measurements: Sequence[GpuMeasurement],
        began_s: float,
        *,
        is_settled: bool,
    ) -> _Reading:
        """Remember a reading; forget those that were not used for longest."""
        now_s = self._monotonic()
        valid_s = _SETTLED_FOR_S if is_settled else (now_s - began_s) / SHARE_MAX
        reading = _Reading(measurements, now_s + valid_s)
        with self._lock:
            self._readings[key] = reading
            self._readings.move_to_end(key)
            count = sum(1 + len(one.measurements) for one in self._readings.values())
            while count > MEASUREMENTS_MAX:
                _, dropped = self._readings.popitem(last=False)
                count -= 1 + len(dropped.measurements)
        return reading


def _is_settled(attempt: AttemptTimes, now_s: float) -> bool:
    return attempt.ended_s is not None and now_s - attempt.ended_s > SETTLED_S


def _read_lines(engines: Engines, key: AttemptKey) -> Sequence[UsageLine]:
    """Return the usage of an attempt.  Raises OSError if it cannot be read now."""
    engine = engines.get_by_attempt(key)
    return engine.read_usage(key) if isinstance(engine, SupportsUsage) else ()
