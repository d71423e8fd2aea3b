"""Work that nobody waits for, done in turns with rests between them, for a share of a processor.

All threads of a server share one interpreter, so what is thought here slows those who answer calls.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

#: How long a turn and its rest are together, where no piece of work is longer than a turn.
ROUND_S: Final = 2.0


@dataclass(kw_only=True)
class CpuBudget:
    """When there is time for work, and when to rest."""

    share: float
    """Of a processor."""
    clock: Callable[[], float] = time.monotonic
    work_clock: Callable[[], float] = time.thread_time
    _rests_until_s: float = 0.0

    @property
    def is_resting(self) -> bool:
        """Whether it is too early for the next turn."""
        return self.clock() < self._rests_until_s

    @contextmanager
    def one(self) -> Iterator[Callable[[], bool]]:
        """A turn; gives what says whether there is time for one more piece of work.

        A turn that failed rests as well: else what fails each time would take all of a processor.
        """
        began = self.work_clock()
        try:
            yield lambda: self.work_clock() - began < self.share * ROUND_S
        finally:
            self._rests_until_s = self.clock() + (self.work_clock() - began) / self.share
