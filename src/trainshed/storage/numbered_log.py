"""Reads the lines of a job's log by their numbers.

The lines of the files are numbered from 1, in the order of the log.  A damaged line has a number
too, so that no line has to be decoded to count it.  When old segments are removed, all numbers
shift.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.files.beneath import NOT_A_FILE, Beneath
from trainshed.model.log_line import SERVICE_TASK, LogLine
from trainshed.storage.line_filters import LineFilter
from trainshed.storage.log_index import NO_MARKS, LineIndex, Marks
from trainshed.storage.log_segments import (
    NEWLINE,
    SEGMENT_BYTES_MAX,
    LogSegment,
    SegmentBytes,
    decode_line,
    find_start,
    open_segment,
    stamp_before,
    whole_pieces,
)

ALL_LINES: Final = LineFilter()
#: The assumed size of a line in bytes, while no line is counted.
_LINE_BYTES: Final = 128


class NumberedLine(NamedTuple):
    """A line, its number, and its size in the file in bytes."""

    number: int
    line: LogLine
    size: int


class NumberedPiece(NamedTuple):
    """Whole lines of a file in their bytes, the number of the first, and the share behind them."""

    first: int
    data: bytes
    share: float


class AttemptLines(NamedTuple):
    """The numbers of an attempt's lines: ``lines`` lines from the number ``first`` on."""

    attempt: int
    first: int
    lines: int


@dataclass(slots=True)
class _Part:
    """A segment with its marks: of all lines, and of those of the filter; None: not made yet."""

    segment: LogSegment
    size: int
    all: Marks | None
    selected: Marks | None


class NumberedLog:
    """The log of a job at one moment; ``attempt`` selects the lines of one attempt.

    Positions count the selected lines, from 0; numbers count all lines, from 1.
    """

    def __init__(
        self,
        segments: Sequence[LogSegment],
        index: LineIndex,
        line_filter: LineFilter = ALL_LINES,
        attempt: int | None = None,
    ) -> None:
        """Look at the sizes of the segments; reads nothing before ``count_lines``."""
        self._index = index
        self._filter = line_filter
        self._attempt = attempt
        self._parts = [self._part(segment, size) for segment, size in _read_sizes(segments)]

    def _part(self, segment: LogSegment, size: int) -> _Part:
        all_marks = self._index.get(segment, ALL_LINES, size)
        if not self._is_selected(segment):
            return _Part(segment, size, all_marks, NO_MARKS)
        if self._filter.takes_all:
            return _Part(segment, size, all_marks, all_marks)
        return _Part(segment, size, all_marks, self._index.get(segment, self._filter, size))

    def _is_selected(self, segment: LogSegment) -> bool:
        return self._attempt in (None, segment.attempt)

    def count_lines(self, is_late: Callable[[], bool]) -> bool:
        """Count the lines of segments until it is late; return whether all are counted.

        At least one segment is counted, the last one first.
        """
        parts = [*self._parts[-1:], *self._parts[:-1]]
        uncounted = [part for part in parts if part.all is None or part.selected is None]
        for at, part in enumerate(uncounted):
            if at and is_late():
                break
            self._count_part(part)
        self.__dict__.pop("_bases", None)
        return self.is_exact

    def _count_part(self, part: _Part) -> None:
        part.all = part.all or self._index.make(part.segment, ALL_LINES)
        if part.selected is None:
            is_same = self._filter.takes_all
            part.selected = part.all if is_same else self._index.make(part.segment, self._filter)

    @property
    def is_exact(self) -> bool:
        """Whether all lines are counted; else positions and numbers are estimates."""
        return all(part.all is not None and part.selected is not None for part in self._parts)

    @cached_property
    def _bases(self) -> tuple[list[int], list[int]]:
        """The number of lines, and of selected lines, before each segment and at the end."""
        all_counts = _estimate_counts([(part.size, part.all) for part in self._parts])
        selected = _estimate_counts([(part.size, part.selected) for part in self._parts])
        return [*accumulate(all_counts, initial=0)], [*accumulate(selected, initial=0)]

    @property
    def line_count(self) -> int:
        """The number of all lines."""
        return self._bases[0][-1]

    @property
    def total(self) -> int:
        """The number of selected lines."""
        return self._bases[1][-1]

    @property
    def attempts(self) -> list[AttemptLines]:
        """The lines of each attempt that has any, also of those that are not selected."""
        first_of: dict[int, int] = {}
        counts: dict[int, int] = {}
        bases, _ = self._bases
        for at, part in enumerate(self._parts):
            attempt = part.segment.attempt
            first_of.setdefault(attempt, bases[at] + 1)
            counts[attempt] = counts.get(attempt, 0) + bases[at + 1] - bases[at]
        return [AttemptLines(one, first, counts[one]) for one, first in first_of.items()]

    @property
    def pruned_before_ns(self) -> int | None:
        """The stamp before which lines were removed; None if none were."""
        last_attempt = None
        pruned = None
        for part in self._parts:
            if part.segment.attempt != last_attempt and part.segment.number > 1:
                pruned = part.segment.first_ns
            last_attempt = part.segment.attempt
        return pruned

    def position_of(self, number: int) -> int:
        """Return the position of the first selected line with a number or a higher one."""
        bases, selected = self._bases
        at = bisect_right(bases, number - 1) - 1
        if at < 0 or at >= len(self._parts):
            return selected[max(0, at)]
        part, skip = self._parts[at], number - 1 - bases[at]
        with open_segment(part.segment.root, part.segment.name) as data:
            if data is None:
                return selected[at]
            offset = _offset_of(data, self._marks(part)[0], skip)
            before = self._marks(part)[1].count_before(data, offset, self._filter)
        return selected[at] + before

    def position_at(self, stamp_ns: int) -> int:
        """Return the position of the first selected line with a stamp or a later one."""
        selected = self._bases[1]
        at = bisect_right(self._parts, stamp_ns, key=lambda part: part.segment.first_ns) - 1
        if at < 0:
            return 0
        part = self._parts[at]
        with open_segment(part.segment.root, part.segment.name) as data:
            if data is None:
                return selected[at]
            marks = self._marks(part)[1]
            offset = find_start(data, self._marks(part)[0].end, stamp_ns)
            return selected[at] + marks.count_before(data, offset, self._filter)

    def read(
        self, position: int, is_late: Callable[[], bool] = lambda: False
    ) -> Iterator[NumberedLine]:
        """Yield the selected lines from a position on.

        When it is late, end before a segment that is not counted yet.
        """
        bases, selected = self._bases
        first = max(0, bisect_right(selected, position) - 1)
        for at in range(first, len(self._parts)):
            if self._parts[at].selected is None and is_late():
                return
            skip = max(0, position - selected[at])
            for line in self._read_part(self._parts[at], skip):
                yield line._replace(number=line.number + bases[at])

    def pieces(self, number: int = 1) -> Iterator[NumberedPiece]:
        """Yield all lines in pieces of files; begin with the piece of the line with a number.

        Lines of attempts that are not selected are left out.
        """
        bases, _ = self._bases
        sizes = (part.size * self._is_selected(part.segment) for part in self._parts)
        bytes_before = [*accumulate(sizes, initial=0)]
        first = max(0, bisect_right(bases, number - 1) - 1)
        for at, part in enumerate(self._parts[first:], first):
            if not self._is_selected(part.segment):
                continue
            skip = max(0, number - 1 - bases[at])
            for base, offset, piece in _pieces_of(part.segment, self._marks(part)[0], skip):
                share = (bytes_before[at] + offset + len(piece)) / bytes_before[-1]
                yield NumberedPiece(bases[at] + base + 1, piece, share)

    def _marks(self, part: _Part) -> tuple[Marks, Marks]:
        self._count_part(part)
        return part.all or NO_MARKS, part.selected or NO_MARKS

    def _read_part(self, part: _Part, skip: int) -> Iterator[NumberedLine]:
        all_marks, marks = self._marks(part)
        if skip >= marks.count:
            return
        with open_segment(part.segment.root, part.segment.name) as data:
            if data is None:
                return
            start, position = marks.piece_of(skip)
            number = all_marks.count_before(data, start, ALL_LINES)
            for offset, piece in _add_offsets(start, whole_pieces(data, start, marks.end)):
                scanned = 0
                for at in self._filter.starts(piece):
                    number += piece.count(NEWLINE, scanned, at)
                    scanned, position = at, position + 1
                    if position > skip:
                        text = piece[at : piece.find(NEWLINE, at) + 1]
                        line = decode_line(text) or _describe_damage(
                            data, part.segment, offset + at, text
                        )
                        yield NumberedLine(number + 1, line, len(text))
                number += piece.count(NEWLINE, scanned)


def _read_sizes(segments: Sequence[LogSegment]) -> Iterator[tuple[LogSegment, int]]:
    """Yield the segments that still exist, with their sizes in bytes."""
    with ExitStack() as held:
        roots: dict[Path, Beneath] = {}
        for segment in segments:
            try:
                if segment.root not in roots:
                    roots[segment.root] = held.enter_context(Beneath(segment.root))
                size = roots[segment.root].stat(segment.name).st_size
            except OSError as error:
                if error.errno not in NOT_A_FILE:
                    raise
            else:
                yield segment, min(size, SEGMENT_BYTES_MAX)


def _estimate_counts(parts: Sequence[tuple[int, Marks | None]]) -> list[int]:
    """Return the number of lines of each segment, estimated by the counted ones if need be.

    An estimate is at least 1, so that no reader skips a segment that is not counted.
    """
    counted = [marks for _, marks in parts if marks is not None]
    lines, size = sum(marks.count for marks in counted), sum(marks.end for marks in counted)
    share = lines / size if size else 1 / _LINE_BYTES
    return [max(1, int(size * share)) if marks is None else marks.count for size, marks in parts]


def _offset_of(data: SegmentBytes, marks: Marks, skip: int) -> int:
    """Return where the line behind ``skip`` lines of a segment begins."""
    start, position = marks.piece_of(skip)
    piece = next(whole_pieces(data, start, marks.end), b"")
    offset = 0
    for _ in range(skip - position):
        offset = piece.find(NEWLINE, offset) + 1
    return start + offset


def _pieces_of(segment: LogSegment, marks: Marks, skip: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield the pieces of a segment from a line on: lines before, offset, bytes."""
    if skip >= marks.count:
        return
    with open_segment(segment.root, segment.name) as data:
        if data is None:
            return
        start, base = marks.piece_of(skip)
        for offset, piece in _add_offsets(start, whole_pieces(data, start, marks.end)):
            yield base, offset, piece
            base += piece.count(NEWLINE)


def _add_offsets(start: int, pieces: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    for piece in pieces:
        yield start, piece
        start += len(piece)


def _describe_damage(data: SegmentBytes, segment: LogSegment, offset: int, text: bytes) -> LogLine:
    """Return what is shown for a damaged line; it has the stamp of the line before it."""
    return LogLine(
        stamp_ns=stamp_before(data, offset) or segment.first_ns,
        task_name=SERVICE_TASK,
        text=f"This line of the log is damaged: {len(text) - 1} bytes cannot be read.",
        severity="WARNING",
    )
