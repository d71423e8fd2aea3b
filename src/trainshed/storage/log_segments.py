"""Reads one segment of a log, also while an attempt writes it.

Stamps ascend, so a line is found by its stamp, by binary search.  Damaged lines are skipped.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, Self

from trainshed.files.beneath import NOT_A_FILE, Beneath
from trainshed.model.log_line import LogLine, decode

NEWLINE: Final = b"\n"
#: The beginning and the end of every line that ``log_line.encode`` writes.
_HEAD: Final = re.compile(rb'\[(\d{1,20}), "')
_HEAD_BYTES_MAX: Final = 32
_TAIL: Final = b'"]\n'
_PROBE_BYTES: Final = 1 << 12
#: The size of one read of requested lines, in bytes.
PIECE_BYTES: Final = 1 << 18
#: Limits of a segment, a line, and the lines before a whole one; supervisors write far less.
SEGMENT_BYTES_MAX: Final = 1 << 25
_LINE_BYTES_MAX: Final = 1 << 20
_LINES_MAX: Final = 1 << 10
_FIRST_STAMPS_MAX: Final = 1 << 16
_STAMP_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A range of a log: stamps from ``from_ns`` until before ``before_ns``, of one task or all.

    ``holds`` skips lines by their bytes: in lower case, a line must contain a text of each clause.
    At least one other line of each piece of a file is returned too, so that the caller of a search
    without a match sees its progress.
    """

    from_ns: int = 0
    before_ns: int | None = None
    task: str | None = None
    newest_first: bool = False
    holds: tuple[tuple[bytes, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class LogSegment:
    """A file with at least one whole line, and the stamp of the first one."""

    root: Path
    name: str
    """The path below ``root``; links are not followed, because the job can create them."""
    first_ns: int

    @property
    def attempt(self) -> int:
        """The number of the attempt that wrote the segment."""
        return int(self.name.split("/")[1])

    @property
    def number(self) -> int:
        """The number of the segment within its attempt, from 1."""
        return int(self.name.rpartition("/")[2].partition(".")[0])

    @classmethod
    def open(cls, root: Path, name: str) -> Self | None:
        """Return the segment of a path; None if it has no line, is missing, or is no segment."""
        try:
            return cls(root, name, _first_stamp(root, name))
        except ValueError:
            return None
        except OSError as error:
            if error.errno not in NOT_A_FILE:
                raise
            return None

    def read(self, span: Span) -> Iterator[LogLine]:
        """Yield the whole lines of a span; skips an unfinished last line, and a removed file."""
        with open_segment(self.root, self.name) as data:
            if data is None:
                return
            end = data.rfind(NEWLINE, 0, data.size) + 1
            start = find_start(data, end, span.from_ns)
            if span.before_ns is not None:
                end = find_start(data, end, span.before_ns)
            pieces = _pieces_backward if span.newest_first else whole_pieces
            for text in (
                text for piece in pieces(data, start, end) for text in _lines(piece, span)
            ):
                line = decode_line(text)
                if line is not None and span.task in (None, line.task_name):
                    yield line


@lru_cache(maxsize=_FIRST_STAMPS_MAX)
def _first_stamp(root: Path, name: str) -> int:
    """Return the stamp of the first line, which never changes.  Raises ValueError without one."""
    with Beneath(root) as jobs, jobs.read(name) as file:
        for line in islice(iter(partial(file.readline, _LINE_BYTES_MAX), b""), _LINES_MAX):
            if (head := _HEAD.match(line)) and line.endswith(_TAIL):
                return int(head[1])
    raise ValueError(f"{name} has no line")


class SegmentBytes:
    """The bytes of a file, read in pieces: mapping a truncated file would kill the server."""

    def __init__(self, file: BinaryIO) -> None:
        self._descriptor = file.fileno()
        self.size = min(os.fstat(self._descriptor).st_size, SEGMENT_BYTES_MAX)

    def __getitem__(self, piece: slice) -> bytes:
        return os.pread(self._descriptor, max(0, piece.stop - piece.start), piece.start)

    def find(self, byte: bytes, start: int, end: int) -> int:
        for at in range(start, end, _PROBE_BYTES):
            offset = self[at : min(at + _PROBE_BYTES, end)].find(byte)
            if offset >= 0:
                return at + offset
        return -1

    def rfind(self, byte: bytes, start: int, end: int) -> int:
        for at in range(end, start, -_PROBE_BYTES):
            first = max(start, at - _PROBE_BYTES)
            offset = self[first:at].rfind(byte)
            if offset >= 0:
                return first + offset
        return -1


@contextmanager
def open_segment(root: Path, name: str) -> Iterator[SegmentBytes | None]:
    """Open a segment; yield None if it is missing or no regular file."""
    with ExitStack() as held:
        try:
            file = held.enter_context(held.enter_context(Beneath(root)).read(name))
        except OSError as error:
            if error.errno not in NOT_A_FILE:
                raise
            yield None
            return
        yield SegmentBytes(file)


def find_start(data: SegmentBytes, end: int, stamp_ns: int) -> int:
    """Return the start of the first line with a stamp from ``stamp_ns`` on; ``end`` if none.

    ``low`` and ``high`` are always the starts of lines.
    """
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        start = max(low, data.rfind(NEWLINE, low, middle) + 1)
        next_start, line_ns = _first_whole_line(data, start, high)
        if line_ns is None or line_ns >= stamp_ns:
            high = start
        else:
            low = next_start
    return low


def _first_whole_line(data: SegmentBytes, start: int, end: int) -> tuple[int, int | None]:
    """Return the end and the stamp of the first undamaged line; (``end``, None) without one."""
    while start < end:
        next_start = data.find(NEWLINE, start, end) + 1 or end
        head = _HEAD.match(data[start : min(next_start, start + _HEAD_BYTES_MAX)])
        if head and data[next_start - len(_TAIL) : next_start] == _TAIL:
            return next_start, int(head[1])
        start = next_start
    return end, None


def stamp_before(data: SegmentBytes, offset: int) -> int | None:
    """Return the stamp of the last undamaged line before an offset, the start of a line.

    None if none of the last 1,024 lines is undamaged.
    """
    for _ in range(_LINES_MAX):
        if not offset:
            return None
        start = data.rfind(NEWLINE, 0, offset - 1) + 1
        _, stamp_ns = _first_whole_line(data, start, offset)
        if stamp_ns is not None:
            return stamp_ns
        offset = start
    return None


def task_needle(task: str | None) -> bytes:
    """Return the bytes that every line of the task has, for a search without decoding."""
    if task is None:
        return NEWLINE
    return b" " + json.dumps(task, ensure_ascii=False).encode("utf-8", "backslashreplace") + b", "


def whole_pieces(data: SegmentBytes, start: int, end: int) -> Iterator[bytes]:
    """Yield pieces of whole lines, because a reader may need only the first lines."""
    while start < end:
        stop = min(start + PIECE_BYTES, end)
        stop = data.find(NEWLINE, stop - 1, end) + 1 or end
        yield data[start:stop]
        start = stop


def _pieces_backward(data: SegmentBytes, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        first = max(start, end - PIECE_BYTES)
        first = max(start, data.rfind(NEWLINE, start, first) + 1)
        yield data[first:end]
        end = first


def _lines(piece: bytes, span: Span) -> Iterator[bytes]:
    """Yield the lines of a piece that may be in the span, in the order of the span."""
    if span.holds:
        return _lines_that_hold(piece, span)
    offsets = _LINE_FINDERS[span.newest_first](piece, task_needle(span.task))
    return (piece[start:end] for start, end in offsets)


def _lines_that_hold(piece: bytes, span: Span) -> Iterator[bytes]:
    """Yield the lines with a text of each clause, and the last line in the order of the span.

    Most pieces contain no text of some clause, or only one: then searching bytes is many times
    faster than comparing lines.
    """
    lower_piece = piece.lower()
    clauses = sorted(([t for t in clause if t in lower_piece] for clause in span.holds), key=len)
    offsets_of, last = _LINE_FINDERS[span.newest_first], None
    if clauses[0]:
        is_one = len(clauses[0]) == 1
        needle, rest = (clauses[0][0], clauses[1:]) if is_one else (NEWLINE, clauses)
        for start, end in offsets_of(lower_piece, needle):
            if all(any(text in lower_piece[start:end] for text in clause) for clause in rest):
                last = start
                yield piece[start:end]
    start, end = _last_line(piece, newest_first=span.newest_first)
    if start != last:
        yield piece[start:end]


def _last_line(piece: bytes, *, newest_first: bool) -> tuple[int, int]:
    """Return the start and end of the last line of a piece."""
    if newest_first:
        return 0, piece.find(NEWLINE) + 1 or len(piece)
    return piece.rfind(NEWLINE, 0, len(piece) - 1) + 1, len(piece)


def _line_offsets(data: bytes, needle: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each line that contains the needle."""
    start = 0
    while (match := data.find(needle, start)) >= 0:
        first = data.rfind(NEWLINE, start, match) + 1 or start
        start = data.find(NEWLINE, match) + 1 or len(data)
        yield first, start


def _line_offsets_backward(data: bytes, needle: bytes) -> Iterator[tuple[int, int]]:
    end = len(data)
    while (match := data.rfind(needle, 0, end)) >= 0:
        last = data.find(NEWLINE, match) + 1 or len(data)
        end = data.rfind(NEWLINE, 0, match) + 1
        yield end, last


_LINE_FINDERS: Final = {False: _line_offsets, True: _line_offsets_backward}


def decode_line(data: bytes) -> LogLine | None:
    """Return the line of some bytes; None if ``log_line.encode`` did not write them."""
    try:
        line = decode(data)
    except (ValueError, TypeError, RecursionError):
        return None
    stamp_ns, *texts = line
    is_line = type(stamp_ns) is int and 0 <= stamp_ns <= _STAMP_MAX
    return line if is_line and all(type(text) is str for text in texts) else None
