"""Logs a warning while the steps of a job wait for their input, and a line when they no longer do.

In every job some steps wait, for example at the start of an epoch or after a checkpoint.  Therefore
only a lasting wait is reported, and the end of it only when the waits are much shorter.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Iterable

#: From this share of waiting on, steps are bound by input (``planning.scaling.input_bound.WAITS``);
#: below the second share they no longer are.
BOUND_SHARE = 0.1
FREE_SHARE = 0.05
#: Seconds for which a state must last before it is logged, and the fewest steps to judge by.
LASTING_S = 30.0
STEPS_MIN = 16
#: Most lines for one process.
LINES_MAX = 10
HELP = "more loader workers, data cached on the host, or more hosts would help"


class InputWatch:
    """Watches the steps of one process."""

    def __init__(self) -> None:
        self._is_bound = False
        self._line_count = 0
        self._since: float | None = None

    def __call__(self, now_s: float, steps: Iterable[tuple[float, float]]) -> None:
        """Write a line to stderr if the state has changed; errors are ignored."""
        if text := self.update(now_s, steps):
            with suppress(OSError, ValueError):
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()

    def update(self, now_s: float, steps: Iterable[tuple[float, float]]) -> str:
        """Return the line for a new state, or ""; ``steps`` are recent (duration, wait) pairs."""
        durations, waits = zip(*steps) if steps else ((), ())
        if len(durations) < STEPS_MIN or self._line_count >= LINES_MAX:
            return ""
        share = sum(waits) / (sum(durations) or 1.0)
        if not (share < FREE_SHARE if self._is_bound else share >= BOUND_SHARE):
            self._since = None
            return ""
        if self._since is None:
            self._since = now_s
        if now_s - self._since < LASTING_S:
            return ""
        self._is_bound, self._since = not self._is_bound, None
        self._line_count += 1
        if not self._is_bound:
            return "INFO: steps no longer wait for their input"
        return f"WARNING: steps wait for their input in {100 * share:.0f} % of their time; {HELP}"
