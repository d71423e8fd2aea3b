"""Decides what the list-and-watch loop of one kind of objects does next: pure functions.

The loop lists once, then watches from the version of the list.  A list is due again when that
version has expired, and now and then, because a watch may be dead without an error.  A watch begins
anew every ``floor_s`` seconds, which costs nothing; a list of thousands of objects costs seconds of
processor time, so it is due less often the more objects the last one had.
"""

import enum
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

#: The shortest watch: the API takes its time limit in whole seconds.
_WATCH_S_MIN: Final = 1.0
#: More doublings would make a number too large to be a pause.
_DOUBLINGS_MAX: Final = 20


class Pacing(NamedTuple):
    """Times of the loop, in seconds, and the size of a page."""

    floor_s: float = 120.0
    """The longest watch, and the least between two lists while watches work."""
    object_s: float = 0.03
    """Added for each object to the time between two lists."""
    pause_s_first: float = 1.0
    """Before the first repetition after a failure; each later pause is twice as long."""
    pause_s_max: float = 30.0
    denied_s: float = 60.0
    """Before a repetition after the API refused a kind: no permission, or not installed."""
    quick_s: float = 0.5
    """A watch that the API ends sooner counts as a failure."""
    steady_s: float = 10.0
    """A connection that breaks after this time counts as the first failure."""
    page_objects: int = 100


class StepOutcome(enum.Enum):
    """How the last list or watch ended."""

    WORKED = "WORKED"
    FAILED = "FAILED"
    EXPIRED = "EXPIRED"
    """The API no longer has the version."""
    DENIED = "DENIED"
    """The API refuses the kind: no permission, or it is not installed."""


@dataclass(frozen=True, slots=True)
class WatchProgress:
    """What the loop knows of its last list and watch."""

    version: str = ""
    """The version from which to watch; empty: a list is due."""
    listed_s: float = float("-inf")
    """Time of the last list that succeeded."""
    objects: int = 0
    """Number of objects in that list."""
    failures: int = 0
    """Failures since a watch has worked; lists between them may have succeeded."""
    outcome: StepOutcome = StepOutcome.WORKED


def note_list(progress: WatchProgress, version: str, now_s: float, objects: int) -> WatchProgress:
    """Return the progress after a list of some objects.

    Failures count until a watch has worked as well.
    """
    outcome = StepOutcome.WORKED
    return replace(progress, version=version, listed_s=now_s, objects=objects, outcome=outcome)


def note_version(progress: WatchProgress, version: str) -> WatchProgress:
    """Return the progress after an event or a bookmark of a watch."""
    return replace(progress, version=version or progress.version)


def note_end(progress: WatchProgress, lasted_s: float, pacing: Pacing) -> WatchProgress:
    """Return the progress after the API ended a watch without an error."""
    if lasted_s < pacing.quick_s:
        return _add_failure(progress, StepOutcome.FAILED)
    return replace(progress, failures=0, outcome=StepOutcome.WORKED)


def note_break(progress: WatchProgress, lasted_s: float, pacing: Pacing) -> WatchProgress:
    """Return the progress after a watch ended with an error; its version is still good."""
    if lasted_s >= pacing.steady_s:
        return replace(progress, failures=1, outcome=StepOutcome.FAILED)
    return _add_failure(progress, StepOutcome.FAILED)


def note_failure(progress: WatchProgress, outcome: StepOutcome) -> WatchProgress:
    """Return the progress after the API refused a list or a watch, or was away: a list is due."""
    return _add_failure(replace(progress, version=""), outcome)


def _add_failure(progress: WatchProgress, outcome: StepOutcome) -> WatchProgress:
    return replace(progress, failures=progress.failures + 1, outcome=outcome)


def plan_watch_s(progress: WatchProgress, now_s: float, pacing: Pacing) -> float | None:
    """Return the seconds for which to watch; None: list."""
    interval_s = pacing.floor_s + pacing.object_s * progress.objects
    left_s = progress.listed_s + interval_s - now_s
    watch_s = min(left_s, pacing.floor_s)
    return watch_s if progress.version and watch_s >= _WATCH_S_MIN else None


def plan_pause_s(progress: WatchProgress, random: float, pacing: Pacing) -> float:
    """Return the seconds to wait before the next request.

    ``random``, from 0 to 1, spreads the requests of many clients.  The first list after an expired
    version is due at once.
    """
    if progress.outcome is StepOutcome.WORKED:
        return 0.0
    if progress.outcome is StepOutcome.EXPIRED and progress.failures <= 1:
        return 0.0
    if progress.outcome is StepOutcome.DENIED:
        return pacing.denied_s * (0.75 + random / 2)
    doublings = min(progress.failures - 1, _DOUBLINGS_MAX)
    longest_s = min(pacing.pause_s_first * 2.0**doublings, pacing.pause_s_max)
    return longest_s * (0.5 + random / 2)
