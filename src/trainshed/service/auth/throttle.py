"""Limits failed sign-ins by client address and by token prefix.

A valid token is accepted even after many failures from its address, so that another user of the
address cannot lock a caller out.  Tokens have 256 random bits and cannot be guessed; the limit
bounds the load and the log lines that wrong tokens cause.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from trainshed.model.refusals import Throttled

#: How many addresses and prefixes are remembered; the least recent ones are dropped first.
KEYS_MAX: Final = 4096
#: Characters of a token's prefix: the mark of Trainshed's tokens, and 24 random bits.
PREFIX_CHARACTERS: Final = 8
_MINUTE_S: Final = 60.0


class Throttle:
    """A leaky bucket for each address and each prefix.  Thread-safe.

    After ``a_minute`` failures at once, further failures raise Throttled.  Each minute allows as
    many again; 0 is no limit.  ``clock`` gives seconds.
    """

    def __init__(self, a_minute: int, clock: Callable[[], float]) -> None:
        self._most = a_minute
        self._clock = clock
        self._lock = threading.Lock()
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def count(self, address: str, token: str) -> None:
        """Count a failed sign-in.  Raises Throttled after too many."""
        if not self._most:
            return
        keys = (f"address {address}", f"prefix {token[:PREFIX_CHARACTERS]}")
        with self._lock:
            wait_s = max([self._wait_s(key) for key in keys if key.partition(" ")[2]], default=0.0)
        if wait_s > 0:
            after_s = math.ceil(wait_s)
            message = (
                "Too many failed sign-ins from this address or with tokens that begin like this "
                f"one; try again in {after_s} s. A valid token is accepted at any time."
            )
            raise Throttled(message, after_s)

    def _wait_s(self, key: str) -> float:
        """Count a failure of a key; return 0, or the seconds until the next one is counted."""
        now = self._clock()
        level, counted_at = self._levels.pop(key, (0.0, now))
        per_s = self._most / _MINUTE_S
        level = max(0.0, level - max(0.0, now - counted_at) * per_s)
        is_allowed = level + 1 <= self._most
        self._levels[key] = (level + is_allowed, now)
        while len(self._levels) > KEYS_MAX:
            self._levels.popitem(last=False)
        return 0.0 if is_allowed else (level + 1 - self._most) / per_s
