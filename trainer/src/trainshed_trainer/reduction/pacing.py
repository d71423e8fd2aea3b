"""Limits the unacknowledged bytes of a connection, its credit (docs/sources/reduction.md 3.1).

With too little credit the link is idle at times.  With too much, one connection gets ahead of the
others, and their links are idle at different times.  The credit is the number of bytes that a
worker moves in 40 ms, so it follows the goodput (decision 0026 has the measurements).  It is
divided among the connections like the tensor, so that all parts end at the same time; a separate
credit for each connection did not achieve that.
"""

from __future__ import annotations

from typing import Final

#: The credit of a worker, in seconds of its goodput.
UNDER_WAY_S: Final = 0.040
#: The least credit of a connection, and its first credit, in bytes.
CREDIT_MIN: Final = 64 << 10
CREDIT_FIRST: Final = 128 << 10
#: Shortest and longest pieces, in bytes; between them, a piece is an eighth of the credit.
PIECE_MIN: Final = 32 << 10
PIECE_MAX: Final = 512 << 10
#: All-reduces of fewer bytes do not change the estimate of the goodput.
SAMPLE_BYTES_MIN: Final = 1 << 20
#: Shortest time that a clock can measure, in seconds.
SAMPLE_S_MIN: Final = 1e-9
#: The weight of a new measurement in the estimate of the goodput.
STEP: Final = 0.5


class SendWindow:
    """The credit of one connection; ``ring`` is the size of its reducer's buffer, in bytes."""

    def __init__(self, ring: int) -> None:
        self._ring = ring
        self.credit = min(CREDIT_FIRST, ring)

    @property
    def piece(self) -> int:
        """Return the number of bytes of a piece."""
        size = min(PIECE_MAX, max(PIECE_MIN, self.credit // 8))
        return min(size, self.credit // 2) // 64 * 64

    def follow(self, goodput: float) -> None:
        """Set the credit for a connection that moves ``goodput`` bytes a second."""
        credit = int(UNDER_WAY_S * goodput)
        self.credit = min(self._ring, max(CREDIT_MIN, credit)) // 64 * 64


class Goodput:
    """The bytes a second of the tensors that a worker has reduced, as a moving average."""

    def __init__(self) -> None:
        self.rate = 0.0
        self._free = 0.0

    def learn(self, nbytes: int, begun: float, now: float) -> bool:
        """Add a tensor that was submitted at ``begun``; return whether the estimate has changed.

        The time in which a tensor waits for earlier tensors does not count.
        """
        seconds, self._free = now - max(begun, self._free), now
        if nbytes < SAMPLE_BYTES_MIN or seconds < SAMPLE_S_MIN:
            return False
        measured = nbytes / seconds
        self.rate += (STEP if self.rate else 1.0) * (measured - self.rate)
        return True
