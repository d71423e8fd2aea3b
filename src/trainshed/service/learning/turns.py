"""Limits background work to a share of a processor, by turns and rests.

All threads of a server share one interpreter, so background work slows the answers to requests.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

#: Seconds of a turn and its rest together, if no piece of work is longer than a turn.
ROUND_S: Final = 2.0


@dataclass(kw_only=True)
class CpuBudget:
    """Limits the work of one thread to a share of a processor."""

    share: float
    """The share of a processor."""
    clock: Callable[[], float] = time.monotonic
    work_clock: Callable[[], float] = time.thread_time
    _rests_until_s: float = 0.0

    @property
    def is_resting(self) -> bool:
        """Whether it is too early for the next turn."""
        return self.clock() < self._rests_until_s

    @contextmanager
    def one(self) -> Iterator[Callable[[], bool]]:
        """Take a turn; yield a function that returns whether there is time for more work.

        A rest follows a failed turn too.  Otherwise repeated failures would use a whole processor.
        """
        began = self.work_clock()
        try:
            yield lambda: self.work_clock() - began < self.share * ROUND_S
        finally:
            self._rests_until_s = self.clock() + (self.work_clock() - began) / self.share
