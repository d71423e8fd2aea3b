"""What every measure of ``figures.py`` is given, and how one says that it could not be taken.

A measure is a function ``measure(bench)`` in a module of this folder that gives rows, as a list
or one after the other.  Ratios are of two things measured in turns in one run, so that a busy
moment hits both.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypedDict

Device = Literal["cuda", "cpu"]


class Row(TypedDict):
    """A measured value with its unit and its goal."""

    name: str
    value: float
    unit: str
    goal: float | None
    better: Literal["more", "less"]
    """``more`` if the goal is a minimum, ``less`` if it is a maximum."""
    of: str
    """What was measured and over what it is a ratio, in one line."""


class Unmeasured(Exception):
    """The reason why a figure cannot be measured on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The device, the folder and the time limit of a measure."""

    device: Device
    dry: bool
    """A rehearsal on the CPU: tiny sizes, fake devices, figures that mean nothing."""
    folder: Path
    """An empty folder of this measure's own."""
    until: float = field(default_factory=lambda: time.monotonic() + 600.0)
    """The time limit on the monotonic clock."""

    def seconds_left(self) -> float:
        """Return the seconds until the time limit; 0 after it."""
        return max(0.0, self.until - time.monotonic())

    def tell(self, text: str) -> None:
        """Print the progress."""
        print(f"        {text}", flush=True)


def in_turns(
    first: Callable[[], float], second: Callable[[], float], pairs: int
) -> list[tuple[float, float]]:
    """Time two functions in pairs, in alternating order: A B, B A, A B."""
    timings = []
    for turn in range(pairs):
        if turn % 2:
            later = second()
            timings.append((first(), later))
        else:
            timings.append((first(), second()))
    return timings


def median_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the median of first / second over all pairs: a drift of the machine cancels out."""
    return statistics.median(first / second for first, second in pairs)
