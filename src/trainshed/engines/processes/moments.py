"""Measures the age of an event whose time is of the wall clock, such as the time of a file.

If a user sets the wall clock forward by an hour, the event would seem an hour older, and a time
limit of the server would pass too early.  So the age counts from the first call in this process for
the event, by the monotonic clock.  A restarted server begins to count again.
"""

import time


class Moments:
    """The ages of the events of one attempt."""

    __slots__ = ("_first_calls",)

    def __init__(self) -> None:
        self._first_calls: dict[str, tuple[float, float]] = {}

    def age_s(self, event: str, at_s: float) -> float:
        """Return the seconds since the first call for an event; a new ``at_s`` is a new event."""
        now_s = time.monotonic()
        first = self._first_calls.get(event)
        if first is None or first[0] != at_s:
            first = self._first_calls[event] = (at_s, now_s)
        return now_s - first[1]
