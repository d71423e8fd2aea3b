"""Decides what has changed between two looks, and when the next look is due.

Comparing needs neither an order of commits nor a clock, so it holds on both databases.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

#: Seconds between two looks, at least and at most.
PAUSE_S_MIN: Final = 0.5
PAUSE_S_MAX: Final = 10.0
#: The most time that looks take, as a share of all time.
LOOKING_SHARE: Final = 0.045
#: The cost of a look is at most so many times its own processor time.  It is more than that time
#: because a database has a part in it; the time that a look waits for other threads is no cost.
WALL_MAX: Final = 1.5


@dataclass(frozen=True, slots=True)
class ChangedKeys:
    """The keys of two mappings that differ."""

    changed: Collection[int] = ()
    """Keys that are new, or have another mark."""
    left: Collection[int] = ()
    """Keys that are no longer in the newer mapping."""

    @property
    def every(self) -> Collection[int]:
        """Return the keys of both kinds."""
        return (*self.changed, *self.left)


def compare_marks(before: Mapping[int, object], now: Mapping[int, object]) -> ChangedKeys:
    """Compare the marks of two looks."""
    changed = [key for key, mark in now.items() if before.get(key) != mark]
    return ChangedKeys(changed, [key for key in before if key not in now])


def count_states(states: Iterable[tuple[str, str]], project: str | None) -> Mapping[str, int]:
    """Count jobs by state; ``states``: (project, state) of each job.  None: of all projects."""
    return Counter(state for owner, state in states if project in (None, owner))


def cost_of(wall_s: float, cpu_s: float) -> float:
    """Return the cost of a look in seconds; ``cpu_s`` is the processor time of its thread."""
    return min(wall_s, WALL_MAX * cpu_s)


def pause_after(cost_s: float) -> float:
    """Return the seconds from the end of a look to the next one: more after a costly look."""
    return min(PAUSE_S_MAX, max(PAUSE_S_MIN, cost_s / LOOKING_SHARE - cost_s))
