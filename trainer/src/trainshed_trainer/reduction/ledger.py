"""Tracks the position of every rank's stream and what can be summed next; it holds no bytes.

A position counts the bytes of a connection's segments, each of which starts at a multiple of 64.
All ranks announce the same segments, so the same position is the same element on every rank, and
the bytes that all ranks have sent can be summed, in pieces of any size.  A rank may be at most
``ring`` bytes ahead of the results sent to it.  Therefore neither its ring nor the ring of results
is overwritten too early: nothing is summed before the slowest rank has sent it
(docs/sources/reduction.md 3 needed 2W buffers for numbered chunks; streams do not).
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from trainshed_trainer.reduction.errors import Culprit, Kind, ReductionError
from trainshed_trainer.reduction.frames import Segment, aligned

#: Most bytes summed at once, so that results can be sent early.
STRETCH_MAX = 1 << 20


class Stretch(NamedTuple):
    """Bytes ``[start, end)`` of the stream, from one segment; ``last``: the segment ends there."""

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
    """The positions of one rank's stream."""

    __slots__ = ("announced", "end", "left", "position", "results")

    def __init__(self) -> None:
        self.announced = 0  # segments so far
        self.position = 0  # bytes received
        self.end = 0  # of its current segment
        self.results = 0  # bytes of results sent to it, or being sent
        self.left = False


class Ledger:
    """The streams of ``world`` ranks on rings of ``ring`` bytes; for one thread at a time.

    A ring must have at least twice the bytes that segments are aligned to, or else the gap before a
    segment could fill it.
    """

    def __init__(self, world: int, ring: int) -> None:
        self.ring = ring
        self.done = 0
        self._ranks = [_Rank() for _ in range(world)]
        self._segments: deque[_Announced] = deque()
        self._finished = 0

    def announce(self, rank: int, segment: Segment) -> None:
        """Record that ``rank`` begins its next segment.

        Raises :class:`ReductionError` if another rank's segment differs or a rank has left, and
        ``ValueError`` if the rank's last segment is not complete.
        """
        row = self._ranks[rank]
        if row.position != row.end:
            raise ValueError("a segment begins before the last one has ended")
        self._refuse_if_a_rank_left(segment)
        announced = self._compare_announced(rank, row.announced - self._finished, segment)
        row.announced += 1
        row.position, row.end = announced.start, announced.end

    def _compare_announced(self, rank: int, index: int, segment: Segment) -> _Announced:
        if index == len(self._segments):
            start = aligned(self._segments[-1].end if self._segments else self.done)
            self._segments.append(_Announced(start, start + segment.nbytes, segment, rank))
        first = self._segments[index]
        if first.segment != segment:
            raise ReductionError(
                f"worker {rank} called all-reduce with {segment}, worker {first.rank} with"
                f" {first.segment}: every rank must call the same ones in the same order",
                blame=Culprit(Kind.WORKER, rank),
                round_=segment.round,
            )
        return first

    def _refuse_if_a_rank_left(self, segment: Segment) -> None:
        for rank, row in enumerate(self._ranks):
            if row.left:
                raise ReductionError(
                    f"worker {rank} has left the group before round {segment.round}",
                    blame=Culprit(Kind.WORKER, rank),
                    round_=segment.round,
                )

    def next_position(self, rank: int, nbytes: int) -> int:
        """Return the position of ``rank``'s next ``nbytes``; ``ValueError`` if not allowed."""
        row = self._ranks[rank]
        if row.position + nbytes > row.end:
            raise ValueError("more bytes than its segment has")
        if row.position + nbytes - row.results > self.ring:
            raise ValueError("more bytes than its credit allows")
        if nbytes % row_itemsize(self, rank) and row.position + nbytes != row.end:
            raise ValueError("a piece that ends within an element")
        return row.position

    def record_arrival(self, rank: int, nbytes: int) -> None:
        """Record that ``rank``'s next ``nbytes`` are in its ring."""
        self._ranks[rank].position += nbytes

    def next_stretch(self) -> Stretch | None:
        """Return what can be summed next: bytes of one segment, contiguous in the ring."""
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

    def record_sum(self, stretch: Stretch) -> None:
        """Record that ``stretch`` has been summed."""
        self.done = stretch.end
        if stretch.last:
            self._segments.popleft()
            self._finished += 1

    def record_sending(self, rank: int, end: int) -> None:
        """Record that results up to ``end`` are being sent to ``rank``; it may then send more."""
        self._ranks[rank].results = end

    def leave(self, rank: int) -> None:
        """Record that ``rank`` leaves the group.

        Raises ``ValueError`` if the rank is in the middle of a round, and :class:`ReductionError`
        if other ranks have begun a round without it.
        """
        row = self._ranks[rank]
        if row.position != row.end or row.announced > self._finished:
            raise ValueError("a goodbye in the middle of a round")
        row.left = True
        if self._segments:
            self._refuse_if_a_rank_left(self._segments[0].segment)

    def have_all_left(self) -> bool:
        """Return whether all ranks have left."""
        return all(row.left for row in self._ranks)

    def round_under_way(self) -> int | None:
        """Return the oldest unfinished round."""
        return self._segments[0].segment.round if self._segments else None

    def list_slowest_ranks(self) -> list[int]:
        """Return the ranks that the others wait for: those that have sent the fewest bytes."""
        if not self._segments:
            return []
        points = [
            (row.announced, row.position if row.announced > self._finished else 0)
            for row in self._ranks
        ]
        least = min(points)
        return [rank for rank, point in enumerate(points) if point == least != max(points)]

    def segment_of(self, rank: int) -> Segment:
        """Return the segment that ``rank`` is sending."""
        return self._segments[self._ranks[rank].announced - self._finished - 1].segment


def row_itemsize(ledger: Ledger, rank: int) -> int:
    """Return the size of an element of the segment that ``rank`` is sending, in bytes."""
    return ledger.segment_of(rank).dtype.itemsize
