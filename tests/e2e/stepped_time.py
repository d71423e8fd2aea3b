"""A wall clock that a test can set: what Python programs see of it is shifted by a file's number.

Standard library only, and imported before whatever looks at the time: supervisors begin with it.
"""

import datetime as dt
import time

_WALL_S, _WALL_NS = time.time, time.time_ns


def shift(path):
    """From now on the time is the machine's and as many seconds more as the file says."""

    def ahead_s():
        try:
            with open(path, encoding="ascii") as file:  # noqa: PTH123 - for a small process
                return int(file.read() or 0)
        except (OSError, ValueError):
            return 0

    time.time = lambda: _WALL_S() + ahead_s()
    time.time_ns = lambda: _WALL_NS() + ahead_s() * 1_000_000_000


class Shifted(dt.datetime):
    """The class of times for modules that ask it for the present one."""

    @classmethod
    def now(cls, tz=None):
        return dt.datetime.fromtimestamp(time.time(), tz)
