"""Uids, project numbers and etags: names that the store makes."""

import hashlib
import secrets
import threading
from collections.abc import Callable

#: 2024-01-01T00:00:00Z: 41 bits of milliseconds from here last until 2093.
_START_MS = 1_704_067_200_000
_NS_PER_MS = 1_000_000
_RANDOM_BITS = 22
_GAP_BITS = 6
_NUMBER_DIGITS = 12


class UidMaker:
    """Makes 63-bit numbers that ascend in time and rarely collide with another server's.

    Two servers that make a number in the same millisecond make the same one once in four million
    times; the database then refuses the second, and its server makes another.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        """``clock`` returns the time in ns."""
        self._clock = clock
        self._last = 0
        self._lock = threading.Lock()

    def __call__(self) -> int:
        """A new uid, greater than any this maker has made."""
        since_ms = max(0, self._clock() // _NS_PER_MS - _START_MS)
        drawn = secrets.randbits(_RANDOM_BITS)
        gap = 1 + drawn % (1 << _GAP_BITS)
        with self._lock:
            self._last = max(since_ms << _RANDOM_BITS | drawn, self._last + gap)
            return self._last


def project_number(project: str) -> str:
    """Twelve digits that follow from a project's id alone, so that all servers agree."""
    low = 10 ** (_NUMBER_DIGITS - 1)
    digest = hashlib.sha256(project.encode("utf-8", "surrogatepass")).digest()
    return str(low + int.from_bytes(digest[:8], "big") % (9 * low))


def etag(uid: int, version: int) -> bytes:
    """Eight bytes that change with every version of a row, and tell nothing else."""
    return hashlib.sha256(f"{uid}:{version}".encode()).digest()[:8]
