"""Says in a job's log, while it runs, that its steps wait for their input, and when no longer.

A loader that begins an epoch, or a checkpoint, makes some steps of any job wait: only what lasts is
said, and it is taken back only when much less is waited for.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Iterable

#: The share of a step from which its input binds (``planning.scaling.input_bound.WAITS``), and the
#: one below which it does so no more.
BINDS = 0.1
FREE = 0.05
#: How long either has to last, in seconds; of fewer steps nothing is said.
LASTS_S = 30.0
STEPS_MIN = 16
#: The most reports of a job whose input is slow at times.
SAID_MAX = 10
HELP = "more loader workers, data cached on the host, or more hosts would help"


class InputWatch:
    """Of one process."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._is_said = False
        self._count = 0
        self._since: float | None = None

    def __call__(self, now_s: float, steps: Iterable[tuple[float, float]]) -> None:
        """Write what is new where the trainer's own lines go: a training never ends of it."""
        if text := self.look(now_s, steps):
            with suppress(OSError, ValueError):
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()

    def look(self, now_s: float, steps: Iterable[tuple[float, float]]) -> str:
        """What is new, "" for nothing; ``steps``: the newest, each its time and its wait in it."""
        times, waits = zip(*steps) if steps else ((), ())
        if len(times) < STEPS_MIN or self._count >= SAID_MAX:
            return ""
        share = sum(waits) / (sum(times) or 1.0)
        if not (share < FREE if self._is_said else share >= BINDS):
            self._since = None
            return ""
        if self._since is None:
            self._since = now_s
        if now_s - self._since < LASTS_S:
            return ""
        self._is_said, self._since, self._count = not self._is_said, None, self._count + 1
        if not self._is_said:
            return "INFO: steps wait for their input no longer"
        return f"WARNING: steps wait for their input in {100 * share:.0f} % of their time; {HELP}"
