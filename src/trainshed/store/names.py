"""Makes uids, project numbers and etags."""

import hashlib
import secrets
import threading
from collections.abc import Callable

#: 2024-01-01T00:00:00Z: 41 bits of milliseconds since then last until 2093.
_START_MS = 1_704_067_200_000
_NS_PER_MS = 1_000_000
_RANDOM_BITS = 22
_GAP_BITS = 6
_NUMBER_DIGITS = 12


class UidMaker:
    """Makes ascending 63-bit numbers that rarely equal a number of another server.

    Two servers that make a number in the same millisecond make the same number once in four million
    times; the database then refuses the second, and its server makes a new number.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        """``clock`` returns the time in ns."""
        self._clock = clock
        self._last = 0
        self._lock = threading.Lock()

    def __call__(self) -> int:
        """Return a new uid, greater than all earlier ones of this object."""
        since_ms = max(0, self._clock() // _NS_PER_MS - _START_MS)
        drawn = secrets.randbits(_RANDOM_BITS)
        gap = 1 + drawn % (1 << _GAP_BITS)
        with self._lock:
            self._last = max(since_ms << _RANDOM_BITS | drawn, self._last + gap)
            return self._last


def project_number(project: str) -> str:
    """Return twelve digits derived only from a project's id, so that all servers agree."""
    low = 10 ** (_NUMBER_DIGITS - 1)
    digest = hashlib.sha256(project.encode("utf-8", "surrogatepass")).digest()
    return str(low + int.from_bytes(digest[:8], "big") % (9 * low))


def etag(uid: int, version: int) -> bytes:
    """Return eight bytes that change with every version of a row."""
    return hashlib.sha256(f"{uid}:{version}".encode()).digest()[:8]
