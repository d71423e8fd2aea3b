"""Where every rank's stream has come to, and what can be summed: positions only, no bytes.

A position counts the bytes of a connection's segments, each begun at a multiple of 64.  Every rank
announces the same segments, so the same position means the same element on all of them, and what
all have sent can be summed whatever the pieces were.  A rank may send ``ring`` bytes more than it
was sent results for: then neither its ring nor that of results can be overwritten before its time,
since nothing is summed that the slowest rank has not sent (docs/sources/reduction.md 3 needed 2W
buffers for numbered chunks; streams do not).
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from trainshed_trainer.reduction.errors import Culprit, Kind, ReductionError
from trainshed_trainer.reduction.frames import Segment, aligned

#: Most bytes summed at once, so that their results leave early.
STRETCH_MAX = 1 << 20


class Stretch(NamedTuple):
    """Bytes ``[start, end)`` of the stream, of one segment; ``last``: it ends there."""

    start: int
    end: int
    segment: Segment
    last: bool


class _Announced(NamedTuple):
    start: int
    end: int
    segment: Segment
    rank: int


class _Rank:
    """How far one rank's stream has come."""

    __slots__ = ("announced", "end", "left", "position", "results")

    def __init__(self) -> None:
        self.announced = 0  # segments so far
        self.position = 0  # bytes received
        self.end = 0  # of its current segment
        self.results = 0  # bytes of results that it was or is being sent
        self.left = False


class Ledger:
    """The streams of ``world`` ranks on rings of ``ring`` bytes; for one thread at a time.

    A ring has at least twice the bytes that segments are aligned to: of fewer, the gap before a
    segment could take all.
    """

    def __init__(self, world: int, ring: int) -> None:
        """Begin where nobody has sent anything."""
        self.ring = ring
        self.done = 0
        self._ranks = [_Rank() for _ in range(world)]
        self._segments: deque[_Announced] = deque()
        self._finished = 0

    def announce(self, rank: int, segment: Segment) -> None:
        """``rank`` begins its next segment.

        Raises :class:`ReductionError` if another rank's is not the same or has left, ``ValueError``
        if the last one is not complete.
        """
        row = self._ranks[rank]
        if row.position != row.end:
            raise ValueError("a segment begins before the last one has ended")
        self._refuse_if_someone_left(segment)
        here = self._the_same_for_all(rank, row.announced - self._finished, segment)
        row.announced += 1
        row.position, row.end = here.start, here.end

    def _the_same_for_all(self, rank: int, place: int, segment: Segment) -> _Announced:
        if place == len(self._segments):
            start = aligned(self._segments[-1].end if self._segments else self.done)
            self._segments.append(_Announced(start, start + segment.nbytes, segment, rank))
        first = self._segments[place]
        if first.segment != segment:
            raise ReductionError(
                f"worker {rank} called all-reduce with {segment}, worker {first.rank} with"
                f" {first.segment}: every rank must call the same ones in the same order",
                blame=Culprit(Kind.WORKER, rank),
                round_=segment.round,
            )
        return first

    def _refuse_if_someone_left(self, segment: Segment) -> None:
        for rank, row in enumerate(self._ranks):
            if row.left:
                raise ReductionError(
                    f"worker {rank} has left the group before round {segment.round}",
                    blame=Culprit(Kind.WORKER, rank),
                    round_=segment.round,
                )

    def place_for(self, rank: int, nbytes: int) -> int:
        """The position of ``rank``'s next ``nbytes``; ``ValueError`` if they may not come."""
        row = self._ranks[rank]
        if row.position + nbytes > row.end:
            raise ValueError("more bytes than its segment has")
        if row.position + nbytes - row.results > self.ring:
            raise ValueError("more bytes than its credit allows")
        if nbytes % row_itemsize(self, rank) and row.position + nbytes != row.end:
            raise ValueError("a piece that ends within an element")
        return row.position

    def arrived(self, rank: int, nbytes: int) -> None:
        """``rank``'s next ``nbytes`` are in its ring."""
        self._ranks[rank].position += nbytes

    def ready(self) -> Stretch | None:
        """What can be summed next: bytes of one segment, without a break in the ring."""
        if not self._segments:
            return None
        start, end, segment, _ = self._segments[0]
        low = max(self.done, start)
        wrap = (low // self.ring + 1) * self.ring
        high = min(end, wrap, low + STRETCH_MAX)
        for row in self._ranks:
            ahead = row.announced - self._finished
            if ahead < 1:
                return None
            if ahead == 1 and row.position < high:
                high = row.position
        return Stretch(low, high, segment, high == end) if high > low else None

    def summed(self, stretch: Stretch) -> None:
        """The results of ``stretch`` are there."""
        self.done = stretch.end
        if stretch.last:
            self._segments.popleft()
            self._finished += 1

    def sending(self, rank: int, end: int) -> None:
        """Results up to ``end`` are about to be sent to ``rank``, which may then send on."""
        self._ranks[rank].results = end

    def leave(self, rank: int) -> None:
        """``rank`` says goodbye.

        ``ValueError`` if it owes or awaits something, :class:`ReductionError` if others are in a
        round that it will not take part in.
        """
        row = self._ranks[rank]
        if row.position != row.end or row.announced > self._finished:
            raise ValueError("a goodbye in the middle of a round")
        row.left = True
        if self._segments:
            self._refuse_if_someone_left(self._segments[0].segment)

    def everyone_left(self) -> bool:
        """Whether all have said goodbye."""
        return all(row.left for row in self._ranks)

    def round_under_way(self) -> int | None:
        """The oldest round that is not finished."""
        return self._segments[0].segment.round if self._segments else None

    def behind(self) -> list[int]:
        """The ranks that the sum waits for: those whose bytes end first."""
        if not self._segments:
            return []
        points = [
            (row.announced, row.position if row.announced > self._finished else 0)
            for row in self._ranks
        ]
        least = min(points)
        return [rank for rank, point in enumerate(points) if point == least != max(points)]

    def segment_of(self, rank: int) -> Segment:
        """The segment that ``rank`` is sending."""
        return self._segments[self._ranks[rank].announced - self._finished - 1].segment


def row_itemsize(ledger: Ledger, rank: int) -> int:
    """Bytes of an element of the segment that ``rank`` is sending."""
    return ledger.segment_of(rank).dtype.itemsize
