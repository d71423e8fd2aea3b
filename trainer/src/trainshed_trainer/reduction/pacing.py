"""How much may be under way on a connection, and in what pieces (docs/sources/reduction.md 3.1).

Too little under way leaves the link idle; too much lets one flow run ahead of its neighbours, and
links then idle at different times.  The credit is what a worker moves in 40 ms, so it follows the
goodput (decision 0026 has the measurements for that figure).  It is divided as the tensor is: all
parts then end at the same time, which a credit that each connection found for itself did not reach.
"""

from __future__ import annotations

from typing import Final

#: Seconds of a worker's goodput that may be under way.
UNDER_WAY_S: Final = 0.040
#: Fewest bytes of credit of a connection, and the bytes that it begins with.
CREDIT_MIN: Final = 64 << 10
CREDIT_FIRST: Final = 128 << 10
#: Shortest and longest pieces, in bytes; a piece is an eighth of the credit between them.
PIECE_MIN: Final = 32 << 10
PIECE_MAX: Final = 512 << 10
#: All-reduces of fewer bytes say nothing of the goodput.
SAMPLE_BYTES_MIN: Final = 1 << 20
#: No clock tells shorter times apart, in seconds.
SAMPLE_S_MIN: Final = 1e-9
#: How far one measurement moves the goodput towards what it says.
STEP: Final = 0.5


class SendWindow:
    """The credit of one connection; ``ring`` is the most that its reducer can take."""

    def __init__(self, ring: int) -> None:
        """Begin with little."""
        self._ring = ring
        self.credit = min(CREDIT_FIRST, ring)

    @property
    def piece(self) -> int:
        """Bytes of a piece."""
        size = min(PIECE_MAX, max(PIECE_MIN, self.credit // 8))
        return min(size, self.credit // 2) // 64 * 64

    def follow(self, goodput: float) -> None:
        """The parts that go this way move at ``goodput`` bytes a second."""
        credit = int(UNDER_WAY_S * goodput)
        self.credit = min(self._ring, max(CREDIT_MIN, credit)) // 64 * 64


class Goodput:
    """Bytes a second of the tensors that a worker has reduced, the newest weighing most."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.rate = 0.0
        self._free = 0.0

    def learn(self, nbytes: int, begun: float, now: float) -> bool:
        """A tensor given at ``begun`` has come back; whether that changed the estimate.

        Tensors given while others are under way wait for them first, which is no time of theirs.
        """
        seconds, self._free = now - max(begun, self._free), now
        if nbytes < SAMPLE_BYTES_MIN or seconds < SAMPLE_S_MIN:
            return False
        measured = nbytes / seconds
        self.rate += (STEP if self.rate else 1.0) * (measured - self.rate)
        return True
