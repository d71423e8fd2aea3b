"""Reads the log lines of attempts, also while the attempts write them.

Stamps ascend within a job, so a line is found by its stamp: first the segment, then the offset
within the segment by binary search.  Damaged lines are skipped.  There is no index, and no file
stays open between two calls.
"""

import json
import os
import re
import shutil
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, Self

from trainshed.files.beneath import NOT_A_FILE, Beneath, FileKind
from trainshed.model.log_line import LOG_FOLDER, SEGMENT_PATTERN, LogLine, decode
from trainshed.model.resource_names import JobUid

_NEWLINE: Final = b"\n"
#: The beginning and the end of every line that ``log_line.encode`` writes.
_HEAD: Final = re.compile(rb'\[(\d{1,20}), "')
_HEAD_BYTES_MAX: Final = 32
_TAIL: Final = b'"]\n'
_PIECE_BYTES: Final = 1 << 12
#: The size of one read of requested lines, in bytes.
_LINES_BYTES: Final = 1 << 18
#: Limits of a segment, a line, and the lines before a whole one; supervisors write far less.
_SEGMENT_BYTES_MAX: Final = 1 << 25
_LINE_BYTES_MAX: Final = 1 << 20
_LINES_MAX: Final = 1 << 10
_FIRST_STAMPS_MAX: Final = 1 << 16


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
        with _open_segment(self.root, self.name) as data:
            if data is None:
                return
            end = data.rfind(_NEWLINE, 0, data.size) + 1
            start = _find_start(data, end, span.from_ns)
            if span.before_ns is not None:
                end = _find_start(data, end, span.before_ns)
            pieces = _pieces_backward if span.newest_first else _pieces
            for text in (
                text for piece in pieces(data, start, end) for text in _lines(piece, span)
            ):
                line = _decode(text)
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


class _Segment:
    """The bytes of a file, read in pieces: mapping a truncated file would kill the server."""

    def __init__(self, file: BinaryIO) -> None:
        self._descriptor = file.fileno()
        self.size = min(os.fstat(self._descriptor).st_size, _SEGMENT_BYTES_MAX)

    def __getitem__(self, piece: slice) -> bytes:
        return os.pread(self._descriptor, max(0, piece.stop - piece.start), piece.start)

    def find(self, byte: bytes, start: int, end: int) -> int:
        for at in range(start, end, _PIECE_BYTES):
            offset = self[at : min(at + _PIECE_BYTES, end)].find(byte)
            if offset >= 0:
                return at + offset
        return -1

    def rfind(self, byte: bytes, start: int, end: int) -> int:
        for at in range(end, start, -_PIECE_BYTES):
            first = max(start, at - _PIECE_BYTES)
            offset = self[first:at].rfind(byte)
            if offset >= 0:
                return first + offset
        return -1


@contextmanager
def _open_segment(root: Path, name: str) -> Iterator[_Segment | None]:
    """Open a segment; yield None if it is missing or no regular file."""
    with ExitStack() as held:
        try:
            file = held.enter_context(held.enter_context(Beneath(root)).read(name))
        except OSError as error:
            if error.errno not in NOT_A_FILE:
                raise
            yield None
            return
        yield _Segment(file)


def _find_start(data: _Segment, end: int, stamp_ns: int) -> int:
    """Return the start of the first line with a stamp from ``stamp_ns`` on; ``end`` if none.

    ``low`` and ``high`` are always the starts of lines.
    """
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        start = max(low, data.rfind(_NEWLINE, low, middle) + 1)
        next_start, line_ns = _first_whole_line(data, start, high)
        if line_ns is None or line_ns >= stamp_ns:
            high = start
        else:
            low = next_start
    return low


def _first_whole_line(data: _Segment, start: int, end: int) -> tuple[int, int | None]:
    """Return the end and the stamp of the first undamaged line; (``end``, None) without one."""
    while start < end:
        next_start = data.find(_NEWLINE, start, end) + 1 or end
        head = _HEAD.match(data[start : min(next_start, start + _HEAD_BYTES_MAX)])
        if head and data[next_start - len(_TAIL) : next_start] == _TAIL:
            return next_start, int(head[1])
        start = next_start
    return end, None


def _needle(task: str | None) -> bytes:
    """Return the bytes that every line of the task has, for a search without decoding."""
    if task is None:
        return _NEWLINE
    return b" " + json.dumps(task, ensure_ascii=False).encode("utf-8", "backslashreplace") + b", "


def _pieces(data: _Segment, start: int, end: int) -> Iterator[bytes]:
    """Yield pieces of whole lines, because a reader may need only the first lines."""
    while start < end:
        stop = min(start + _LINES_BYTES, end)
        stop = data.find(_NEWLINE, stop - 1, end) + 1 or end
        yield data[start:stop]
        start = stop


def _pieces_backward(data: _Segment, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        first = max(start, end - _LINES_BYTES)
        first = max(start, data.rfind(_NEWLINE, start, first) + 1)
        yield data[first:end]
        end = first


def _lines(piece: bytes, span: Span) -> Iterator[bytes]:
    """Yield the lines of a piece that may be in the span, in the order of the span."""
    if span.holds:
        return _lines_that_hold(piece, span)
    offsets = _LINE_FINDERS[span.newest_first](piece, _needle(span.task))
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
        needle, rest = (clauses[0][0], clauses[1:]) if is_one else (_NEWLINE, clauses)
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
        return 0, piece.find(_NEWLINE) + 1 or len(piece)
    return piece.rfind(_NEWLINE, 0, len(piece) - 1) + 1, len(piece)


def _line_offsets(data: bytes, needle: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each line that contains the needle."""
    start = 0
    while (match := data.find(needle, start)) >= 0:
        first = data.rfind(_NEWLINE, start, match) + 1 or start
        start = data.find(_NEWLINE, match) + 1 or len(data)
        yield first, start


def _line_offsets_backward(data: bytes, needle: bytes) -> Iterator[tuple[int, int]]:
    end = len(data)
    while (match := data.rfind(needle, 0, end)) >= 0:
        last = data.find(_NEWLINE, match) + 1 or len(data)
        end = data.rfind(_NEWLINE, 0, match) + 1
        yield end, last


_LINE_FINDERS: Final = {False: _line_offsets, True: _line_offsets_backward}


def _decode(data: bytes) -> LogLine | None:
    try:
        return decode(data)
    except (ValueError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class JobLog:
    """The logs of all jobs below one folder: ``UID/ATTEMPT/log/SEGMENT``.

    The logs of some attempts may be below other folders (``also``), with the same paths.
    """

    root: Path
    also: tuple[Path, ...] = ()

    def tail(self, uid: JobUid, count: int, *, task: str | None = None) -> list[LogLine]:
        """Return the last ``count`` lines, the oldest first."""
        return list(islice(self.read(uid, Span(task=task, newest_first=True)), count))[::-1]

    def read(self, uid: JobUid, span: Span) -> Iterator[LogLine]:
        """Yield the lines of a span."""
        segments = self._segments(uid)
        # the first line of the span may be in the last segment that begins before it
        first = max(0, bisect_right(segments, span.from_ns, key=lambda s: s.first_ns) - 1)
        chosen = segments[first:]
        for segment in reversed(chosen) if span.newest_first else chosen:
            if span.before_ns is None or segment.first_ns < span.before_ns:
                yield from segment.read(span)

    def prune(self, uid: JobUid, bytes_max: int) -> int:
        """Remove the oldest segments until a job's log has at most ``bytes_max`` bytes.

        Returns the number of removed segments.  The newest segment of every attempt stays, because
        a supervisor may still write to it.
        """
        return sum(self._prune(root, uid, bytes_max) for root in self._roots)

    def _prune(self, root: Path, uid: JobUid, bytes_max: int) -> int:
        """Remove the oldest segments below one root; return the number of removed ones."""
        removed = 0
        with self._open_root(root) as jobs:
            sizes = self._sizes(jobs, uid)
            excess = sum(size for _, size in sizes) - bytes_max
            newest = {name.rpartition("/")[0]: name for name, _ in sizes}
            for name, size in sizes:
                if excess <= 0:
                    break
                if newest[name.rpartition("/")[0]] != name:
                    with suppress(FileNotFoundError), jobs.parent(name) as (folder, leaf):
                        os.unlink(leaf, dir_fd=folder)
                    excess -= size
                    removed += 1
        return removed

    def remove(self, uid: JobUid) -> None:
        """Remove all lines of a job that has ended."""
        for root in self._roots:
            with self._open_root(root) as jobs:
                for log in self._logs(jobs, uid):
                    with suppress(OSError), jobs.parent(log) as (folder, leaf):
                        shutil.rmtree(leaf, ignore_errors=True, dir_fd=folder)

    def uids(self) -> Iterator[JobUid]:
        """Yield the uids of the jobs that have a folder, in order."""
        uids: set[JobUid] = set()
        for root in self._roots:
            with suppress(FileNotFoundError):
                names = (path.name for path in root.iterdir() if path.name.isdecimal())
                uids.update(JobUid(int(name)) for name in names)
        yield from sorted(uids)

    @property
    def _roots(self) -> tuple[Path, ...]:
        return self.root, *(root for root in self.also if root.is_dir())

    @contextmanager
    def _open_root(self, root: Path) -> Iterator[Beneath]:
        if root == self.root:
            root.mkdir(parents=True, exist_ok=True)
        with Beneath(root) as jobs:
            yield jobs

    def _logs(self, jobs: Beneath, uid: JobUid) -> list[str]:
        """Return the log folders of a job's attempts, the oldest first."""
        attempts = [int(name) for name, _ in _entries(jobs, str(uid)) if name.isdecimal()]
        return [f"{uid}/{attempt}/{LOG_FOLDER}" for attempt in sorted(attempts)]

    def _names(self, jobs: Beneath, uid: JobUid) -> Iterator[str]:
        for log in self._logs(jobs, uid):
            names = (name for name, kind in _entries(jobs, log) if kind is FileKind.FILE)
            yield from (
                f"{log}/{name}" for name in sorted(names) if fnmatchcase(name, SEGMENT_PATTERN)
            )

    def _sizes(self, jobs: Beneath, uid: JobUid) -> list[tuple[str, int]]:
        sizes = []
        for name in self._names(jobs, uid):
            with suppress(FileNotFoundError):
                sizes.append((name, jobs.stat(name).st_size))
        return sizes

    def _segments(self, uid: JobUid) -> list[LogSegment]:
        if not self.also:
            return self._segments_in(self.root, uid)
        segments = [segment for root in self._roots for segment in self._segments_in(root, uid)]
        return sorted(segments, key=lambda segment: segment.first_ns)

    def _segments_in(self, root: Path, uid: JobUid) -> list[LogSegment]:
        with self._open_root(root) as jobs:
            names = list(self._names(jobs, uid))
        segments = (LogSegment.open(root, name) for name in names)
        return [segment for segment in segments if segment is not None]


def _entries(jobs: Beneath, folder: str) -> list[tuple[str, FileKind]]:
    try:
        return jobs.entries(folder)
    except OSError as error:
        if error.errno not in NOT_A_FILE:
            raise
        return []
