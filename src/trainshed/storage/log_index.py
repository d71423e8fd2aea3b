"""Counts the lines of segments, so that a line is found by its number.

The index of a segment has a mark for every 256 KiB of whole lines: where the lines begin, and how
many lines of a filter precede them.  It is made when it is first requested, and continued when the
segment has grown.
"""

import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from trainshed.storage import log_segments
from trainshed.storage.line_filters import LineFilter
from trainshed.storage.log_segments import (
    NEWLINE,
    LogSegment,
    SegmentBytes,
    open_segment,
    whole_pieces,
)

#: The most segments with marks; each takes about 1 kB. The least recently used are dropped.
SEGMENTS_MAX: Final = 1 << 13


def _make_numbers() -> "array[int]":
    return array("q")


@dataclass(frozen=True, slots=True)
class Marks:
    """The index of one segment for one filter; ``end`` is the end of its last whole line."""

    starts: "array[int]" = field(default_factory=_make_numbers)
    counts: "array[int]" = field(default_factory=_make_numbers)
    end: int = 0
    count: int = 0

    def piece_of(self, position: int) -> tuple[int, int]:
        """Return where the piece with the line at a position begins, and its first position."""
        at = bisect_right(self.counts, position) - 1
        return (self.starts[at], self.counts[at]) if at >= 0 else (0, 0)

    def count_before(self, data: SegmentBytes, offset: int, line_filter: LineFilter) -> int:
        """Return how many lines of the filter begin before an offset, the start of a line."""
        at = bisect_right(self.starts, offset) - 1
        if at < 0:
            return 0
        return self.counts[at] + line_filter.count(data[self.starts[at] : offset])


NO_MARKS: Final = Marks()


def continue_marks(marks: Marks, data: SegmentBytes, line_filter: LineFilter) -> Marks:
    """Return the marks of a segment that has grown; begin again if it has shrunk."""
    end = data.rfind(NEWLINE, 0, data.size) + 1
    if end < marks.end:
        marks = NO_MARKS
    starts, counts, start, count = marks.starts[:], marks.counts[:], marks.end, marks.count
    if starts and start - starts[-1] < log_segments.PIECE_BYTES:  # the last piece may grow
        start, count = starts.pop(), counts.pop()
    for piece in whole_pieces(data, start, end):
        starts.append(start)
        counts.append(count)
        start += len(piece)
        count += line_filter.count(piece)
    return Marks(starts, counts, end, count)


@dataclass(frozen=True, slots=True)
class LineIndex:
    """The marks of the segments that were read lately.  Thread-safe."""

    segments_max: int = SEGMENTS_MAX
    _marks: OrderedDict[tuple[LogSegment, LineFilter], tuple[int, Marks]] = field(
        default_factory=OrderedDict
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, segment: LogSegment, line_filter: LineFilter, size: int) -> Marks | None:
        """Return the marks of a segment of a size in bytes; None if they are not made yet."""
        size_then, marks = self._last(segment, line_filter)
        return marks if size_then == size else None

    def make(self, segment: LogSegment, line_filter: LineFilter) -> Marks:
        """Read a segment and return its marks; none for a segment that is gone."""
        _, marks = self._last(segment, line_filter)
        with open_segment(segment.root, segment.name) as data:
            if data is None:
                return NO_MARKS
            marks = continue_marks(marks, data, line_filter)
            with self._lock:
                self._marks[segment, line_filter] = data.size, marks
                while len(self._marks) > self.segments_max:
                    self._marks.popitem(last=False)
        return marks

    def _last(self, segment: LogSegment, line_filter: LineFilter) -> tuple[int, Marks]:
        with self._lock:
            if (segment, line_filter) not in self._marks:
                return -1, NO_MARKS
            self._marks.move_to_end((segment, line_filter))
            return self._marks[segment, line_filter]
