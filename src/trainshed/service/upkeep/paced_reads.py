"""Remembers what is slow to read, so that reading again and again takes little of the time.

An open page asks every 15 seconds, and to read a week of samples takes a second.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

#: The share of the time that readings of one key may take.
SHARE_MAX: Final = 0.05


class _Reading(NamedTuple, Generic[_Value]):
    value: _Value
    size: int
    valid_until_s: float
    """By the monotonic clock."""


class PacedReads(Generic[_Key, _Value]):
    """The values that were read last, by key.  Thread-safe."""

    def __init__(
        self,
        size_max: int,
        size_of: Callable[[_Value], int] = lambda _: 1,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``size_max`` is the largest sum of ``size_of`` of the values in memory."""
        self._size_max = size_max
        self._size_of = size_of
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._readings: OrderedDict[_Key, _Reading[_Value]] = OrderedDict()

    def get(self, key: _Key, read: Callable[[], _Value], valid_s: float = 0.0) -> _Value:
        """Return the value of a key: what was read lately, else the result of ``read``.

        A value is valid for 20 times as long as reading took, and at least for ``valid_s`` seconds.
        An exception of ``read`` is raised and not remembered.
        """
        began_s = self._monotonic()
        with self._lock:
            reading = self._readings.get(key)
            if reading is not None and began_s < reading.valid_until_s:
                self._readings.move_to_end(key)
                return reading.value
        value = read()
        now_s = self._monotonic()
        until_s = now_s + max(valid_s, (now_s - began_s) / SHARE_MAX)
        self._remember(key, _Reading(value, self._size_of(value), until_s))
        return value

    def _remember(self, key: _Key, reading: _Reading[_Value]) -> None:
        """Add a reading; forget those that were not used for longest."""
        with self._lock:
            self._readings[key] = reading
            self._readings.move_to_end(key)
            size = sum(one.size for one in self._readings.values())
            while size > self._size_max:
                _, dropped = self._readings.popitem(last=False)
                size -= dropped.size
