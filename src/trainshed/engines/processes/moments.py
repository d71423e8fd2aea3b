"""How long ago something happened whose time is the wall clock's, such as the time of a file.

A clock that is set forward by an hour would make it an hour older, and whatever is given up by its
age would end.  So its age is counted from when this process first saw it, by a clock that nobody
sets.  A server that was started again begins to count again.
"""

import time


class Moments:
    """What this process has seen of one attempt, and when."""

    __slots__ = ("_first_seen",)

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._first_seen: dict[str, tuple[float, float]] = {}

    def age_s(self, what: str, at_s: float) -> float:
        """Seconds since this was first asked; anew when the moment ``at_s`` is another."""
        now_s = time.monotonic()
        first = self._first_seen.get(what)
        if first is None or first[0] != at_s:
            first = self._first_seen[what] = (at_s, now_s)
        return now_s - first[1]
