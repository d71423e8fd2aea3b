"""How much may be under way on a connection, and in what pieces (contracts/reduction.md 3.1).

Too little under way leaves the link idle; too much lets one flow run ahead of its neighbours, and
links then idle at different times.  What was best there, from 200 Mbit/s to loopback, is what a
connection moves in about 40 ms, so the credit follows the goodput of each connection.
"""

from __future__ import annotations

from typing import Final

#: Seconds of a connection's goodput that may be under way.
UNDER_WAY_S: Final = 0.040
#: Fewest bytes of credit; a connection begins with this many.
CREDIT_MIN: Final = 128 << 10
#: Shortest and longest pieces, in bytes; a piece is an eighth of the credit between them.
PIECE_MIN: Final = 32 << 10
PIECE_MAX: Final = 512 << 10
#: Shares shorter than this many credits say nothing of the goodput.
TELLING: Final = 2
#: How far one measurement moves the credit towards what it says.
STEP: Final = 0.5


class Pace:
    """The credit of one connection; ``ring`` is the most that its reducer can take."""

    def __init__(self, ring: int) -> None:
        """Begin with the least."""
        self._ring = ring
        self.credit = min(CREDIT_MIN, ring)
        self.goodput = 0.0

    @property
    def piece(self) -> int:
        """Bytes of a piece."""
        size = min(PIECE_MAX, max(PIECE_MIN, self.credit // 8))
        return min(size, self.credit // 2) // 64 * 64

    def learn(self, nbytes: int, seconds: float) -> None:
        """A share of ``nbytes`` took ``seconds``, from its first byte sent to its last result."""
        if nbytes < TELLING * self.credit or seconds <= 0:
            return
        self.goodput = nbytes / seconds
        wanted = UNDER_WAY_S * self.goodput
        moved = self.credit + STEP * (wanted - self.credit)
        self.credit = int(min(self._ring, max(CREDIT_MIN, moved))) // 64 * 64
