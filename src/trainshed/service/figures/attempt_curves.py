"""The curves of attempts in memory, so that a page that asks again costs only what is new.

A week of 8 GPUs is ten thousand lines, which take seconds to parse, and an open page asks every
some seconds.
"""

import errno
import gc
import math
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from trainshed.engines.capabilities import SupportsUsage
from trainshed.model.attempt import AttemptKey
from trainshed.model.usage import UsageLine
from trainshed.model.usage_curves import SampleColumns, SeriesKey, UsageColumns
from trainshed.service.figures.growing_curve import GrowingCurve

#: The most lines of an attempt that are read, the newest.
LINES_MAX: Final = 100_000
#: The most curves of an attempt: of its replicas and GPUs, and of values that programs reported.
CURVES_MAX: Final = 20_000
VALUES_MAX: Final = 1000
#: The most points of a curve, and of all curves of an attempt.
POINTS_MAX: Final = 2000
KEPT_POINTS_MAX: Final = 200_000
#: The most points of all attempts in memory; one takes 48 bytes.
CACHED_POINTS_MAX: Final = 600_000
_ATTEMPTS_MAX: Final = 200
#: The longest time that a call waits for another one that reads the same attempt, in seconds.
_WAIT_S_MAX: Final = 10.0

_Key = TypeVar("_Key")


class AttemptCurves:
    """The curves of one attempt.  For one thread at a time, which holds ``lock``."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.usage: dict[SeriesKey, GrowingCurve] = {}
        self.values: dict[tuple[str, str], GrowingCurve] = {}
        """What programs reported, by name and task."""
        self.point_count = 0
        """The number of points in memory, as of the last call."""
        self._last_s = -math.inf

    def follow(self, engine: SupportsUsage, key: AttemptKey) -> None:
        """Add the samples since the last call; read all if there may be a gap.  Raises OSError."""
        newest = engine.read_newest_usage(key)
        if newest and newest[0].at <= self._last_s <= newest[-1].at:
            self._add([line for line in newest if line.at > self._last_s])
        else:  # the first call, many new lines, or a clock that was set back
            with _pause_collection():
                lines = engine.read_usage(key)[-LINES_MAX:]
                self.usage, self.values = {}, {}
                self._add(lines)

    def _add(self, lines: Sequence[UsageLine]) -> None:
        samples = UsageColumns(lines)
        _drop_new(samples.usage, self.usage, CURVES_MAX)
        _drop_new(samples.values, self.values, VALUES_MAX)
        count = len(self.usage.keys() | samples.usage.keys())
        count += len(self.values.keys() | samples.values.keys())
        points_max = max(2, min(POINTS_MAX, KEPT_POINTS_MAX // max(1, count)))
        _extend(self.usage, samples.usage, points_max)
        _extend(self.values, samples.values, points_max)
        self._last_s = lines[-1].at if lines else self._last_s
        self.point_count = sum(map(len, [*self.usage.values(), *self.values.values()]))


@contextmanager
def _pause_collection() -> Iterator[None]:
    """Pause the garbage collector; without that, half of the time to parse a day is its own.

    It would look at the hundred thousand new tuples again and again, and they hold no cycles.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _drop_new(
    samples: dict[_Key, SampleColumns], curves: Mapping[_Key, GrowingCurve], curves_max: int
) -> None:
    """Drop the samples of the last new curves beyond ``curves_max``."""
    new_keys = [key for key in samples if key not in curves]
    for key in new_keys[max(0, curves_max - len(curves)) :]:
        del samples[key]


def _extend(
    curves: dict[_Key, GrowingCurve], samples: Mapping[_Key, SampleColumns], points_max: int
) -> None:
    for key, added in samples.items():
        if key in curves:
            curves[key].extend(added, points_max)
        else:
            curves[key] = GrowingCurve.of_samples(added, points_max)


class AttemptCurveCache:
    """The curves of the attempts that were read last.  Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attempts: OrderedDict[AttemptKey, AttemptCurves] = OrderedDict()

    @contextmanager
    def open(self, engine: SupportsUsage, key: AttemptKey) -> Iterator[AttemptCurves]:
        """Yield the curves of an attempt until now.  Raises OSError if they cannot be read."""
        with self._lock:
            curves = self._attempts.setdefault(key, AttemptCurves())
            self._attempts.move_to_end(key)
        if not curves.lock.acquire(timeout=_WAIT_S_MAX):
            raise OSError(errno.EAGAIN, "other callers read them")
        try:
            curves.follow(engine, key)
            yield curves
        finally:
            curves.lock.release()
            self._drop_old()

    def _drop_old(self) -> None:
        """Forget the attempts that were not read for longest."""
        with self._lock:
            total = sum(curves.point_count for curves in self._attempts.values())
            while self._attempts and (
                total > CACHED_POINTS_MAX or len(self._attempts) > _ATTEMPTS_MAX
            ):
                _, curves = self._attempts.popitem(last=False)
                total -= curves.point_count
