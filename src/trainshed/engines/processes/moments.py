"""How long ago something happened whose time is the wall clock's, such as the time of a file.

A clock that is set forward by an hour would make it an hour older, and whatever is given up by its
age would end.  So its age is counted from the first time that this process looks, by the
monotonic clock.  A server that was started again begins to count again.
"""

import time


class Moments:
    """When this process first looked at moments of one attempt."""

    __slots__ = ("_first_looks",)

    def __init__(self) -> None:
        """Nothing was looked at yet."""
        self._first_looks: dict[str, tuple[float, float]] = {}

    def age_s(self, what: str, at_s: float) -> float:
        """Seconds since the first look at ``what``; anew when its moment ``at_s`` changes."""
        now_s = time.monotonic()
        first = self._first_looks.get(what)
        if first is None or first[0] != at_s:
            first = self._first_looks[what] = (at_s, now_s)
        return now_s - first[1]
