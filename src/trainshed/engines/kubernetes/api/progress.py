"""Decides what the list-and-watch loop of one kind of objects does next: pure functions.

The loop lists once, then watches from the version of the list.  A list is due again when that
version has expired, and every ``floor_s`` seconds, because a watch may be dead without an error.
"""

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

#: The shortest watch: the API takes its time limit in whole seconds.
_WATCH_S_MIN: Final = 1.0


class Pacing(NamedTuple):
    """Times of the loop, in seconds, and the size of a page."""

    floor_s: float = 120.0
    """Between two lists while watches work."""
    pause_s_first: float = 1.0
    """Before the first repetition after a failure; each later pause is twice as long."""
    pause_s_max: float = 30.0
    denied_s: float = 60.0
    """Before a repetition after the API refused a kind: no permission, or not installed."""
    quick_s: float = 0.5
    """A watch that the API ends sooner counts as a failure."""
    steady_s: float = 10.0
    """A connection that breaks after this time counts as the first failure."""
    page_objects: int = 500


@dataclass(frozen=True, slots=True)
class WatchProgress:
    """What the loop knows of its last list and watch."""

    version: str = ""
    """The version from which to watch; empty: a list is due."""
    listed_s: float = float("-inf")
    """Time of the last list that succeeded."""
    failures: int = 0
    """Failures one after another."""
    is_denied: bool = False
    """Whether the API refused this kind the last time."""
    is_expired: bool = False
    """Whether the last failure was an expired version."""


def note_list(progress: WatchProgress, version: str, now_s: float) -> WatchProgress:
    """Return the progress after a list; failures count until a watch has worked as well."""
    return replace(progress, version=version, listed_s=now_s, is_denied=False, is_expired=False)


def note_version(progress: WatchProgress, version: str) -> WatchProgress:
    """Return the progress after an event or a bookmark of a watch."""
    return replace(progress, version=version or progress.version)


def note_end(progress: WatchProgress, lasted_s: float, pacing: Pacing) -> WatchProgress:
    """Return the progress after the API ended a watch without an error."""
    is_quick = lasted_s < pacing.quick_s
    return replace(progress, failures=progress.failures + 1 if is_quick else 0)


def note_break(progress: WatchProgress, lasted_s: float, pacing: Pacing) -> WatchProgress:
    """Return the progress after a watch ended with an error; its version is still good."""
    failures = 1 if lasted_s >= pacing.steady_s else progress.failures + 1
    return replace(progress, failures=failures)


def note_expiry(progress: WatchProgress) -> WatchProgress:
    """Return the progress after the API no longer has the version of a watch or a list."""
    return replace(progress, version="", failures=progress.failures + 1, is_expired=True)


def note_failure(progress: WatchProgress, *, is_denied: bool) -> WatchProgress:
    """Return the progress after a list failed, or the API refused a watch: a list is due."""
    failures = progress.failures + 1
    return replace(progress, version="", failures=failures, is_denied=is_denied, is_expired=False)


def plan_watch_s(progress: WatchProgress, now_s: float, pacing: Pacing) -> float | None:
    """Return the seconds for which to watch; None: list."""
    left_s = progress.listed_s + pacing.floor_s - now_s
    return left_s if progress.version and left_s >= _WATCH_S_MIN else None


def plan_pause_s(progress: WatchProgress, random: float, pacing: Pacing) -> float:
    """Return the seconds to wait before the next request.

    ``random``, from 0 to 1, spreads the requests of many clients.  The first list after an expired
    version is due at once.
    """
    if progress.is_denied:
        return pacing.denied_s * (0.75 + random / 2)
    if progress.failures == 0 or (progress.is_expired and progress.failures == 1):
        return 0.0
    doublings = min(progress.failures - 1, 20)
    longest_s = min(pacing.pause_s_first * 2.0**doublings, pacing.pause_s_max)
    return longest_s * (0.5 + random / 2)
