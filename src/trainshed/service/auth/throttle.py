"""Slows down whoever tries tokens: each failed sign-in counts against its address and its prefix.

A right token is let in whatever was tried before from its address.  Tokens have 256 random bits:
nobody finds one by trying.  A stranger beside you must not be able to lock you out.  What is
bounded is the noise that wrong ones make.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from trainshed.model.refusals import Throttled

#: So many keys are remembered; the ones that were quiet for longest are forgotten first.
KEYS_MAX: Final = 4096
#: How much of a token is its prefix: the mark of our tokens and 24 bits of its own.
PREFIX_CHARACTERS: Final = 8
_MINUTE_S: Final = 60.0


class Throttle:
    """A leaky bucket for each address and each prefix.  Thread-safe.

    ``a_minute`` failures in a row are answered as what they are, and as many in each minute after
    them; 0 is no bound.  ``clock`` gives seconds.
    """

    def __init__(self, a_minute: int, clock: Callable[[], float]) -> None:
        """Begin with nobody remembered."""
        self._most = a_minute
        self._clock = clock
        self._lock = threading.Lock()
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def count(self, address: str, token: str) -> None:
        """Count a failed sign-in.  Raises Throttled where there were too many."""
        if not self._most:
            return
        keys = (f"address {address}", f"prefix {token[:PREFIX_CHARACTERS]}")
        with self._lock:
            wait_s = max([self._wait_s(key) for key in keys if key.partition(" ")[2]], default=0.0)
        if wait_s > 0:
            after_s = math.ceil(wait_s)
            message = (
                "Too many failed sign-ins from this address or with tokens that begin like this "
                f"one; try again in {after_s} s. A right token is let in at any time."
            )
            raise Throttled(message, after_s)

    def _wait_s(self, key: str) -> float:
        """Add a failure to a key; how long until another one would be taken, 0 if it was."""
        now = self._clock()
        level, then = self._levels.pop(key, (0.0, now))
        per_s = self._most / _MINUTE_S
        level = max(0.0, level - max(0.0, now - then) * per_s)
        is_allowed = level + 1 <= self._most
        self._levels[key] = (level + is_allowed, now)
        while len(self._levels) > KEYS_MAX:
            self._levels.popitem(last=False)
        return 0.0 if is_allowed else (level + 1 - self._most) / per_s
