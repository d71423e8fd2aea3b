"""Reads the lines that attempts have written, while they write them.

Stamps ascend within a job, so a line is found by its stamp: first its segment, then its place in
it.  Nothing is indexed or copied, and nothing is held open between two calls.
Within a file the lines of a span are found by halving, through the page cache; damaged lines are
passed over.
"""

import json
import mmap
import re
import shutil
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final, Self

from trainshed.model.log_line import LOG_FOLDER, SEGMENT_PATTERN, LogLine, decode
from trainshed.model.resource_names import JobUid

_NEWLINE: Final = b"\n"
#: What every line begins and ends with that ``encode`` has written.
_HEAD: Final = re.compile(rb'\[(\d{1,20}), "')
_TAIL: Final = b'"]\n'
_FIRST_STAMPS_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of a log: stamps from ``from_ns`` on, below ``before_ns``; of one task or all."""

    from_ns: int = 0
    before_ns: int | None = None
    task: str | None = None
    newest_first: bool = False


@dataclass(frozen=True, slots=True)
class LogSegment:
    """A file with at least one line, and the stamp of the first that can be read."""

    path: Path
    first_ns: int

    @classmethod
    def open(cls, path: Path) -> Self | None:
        """The segment of a path; None while it has no line, or when it is gone."""
        try:
            return cls(path, _first_stamp(path))
        except (ValueError, FileNotFoundError):
            return None

    def read(self, span: Span) -> Iterator[LogLine]:
        """The whole lines of a span; a torn last one does not count, nor does a file that went."""
        with _mapped(self.path) as data:
            if data is None:
                return
            end = data.rfind(_NEWLINE) + 1
            start = _place(data, end, span.from_ns)
            if span.before_ns is not None:
                end = _place(data, end, span.before_ns)
            lines = _backward if span.newest_first else _forward
            for first, last in lines(data, start, end, _needle(span.task)):
                line = _decoded(data[first:last])
                if line is not None and span.task in (None, line.task_name):
                    yield line


@lru_cache(maxsize=_FIRST_STAMPS_MAX)
def _first_stamp(path: Path) -> int:
    """The stamp of the first line, which never changes.  Raises ValueError while there is none."""
    with path.open("rb") as file:
        for line in file:
            if (head := _HEAD.match(line)) and line.endswith(_TAIL):
                return int(head[1])
    raise ValueError(f"{path} has no line")


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap | None]:
    try:
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            yield data
    except FileNotFoundError:
        yield None


def _place(data: mmap.mmap, end: int, stamp_ns: int) -> int:
    """Where the first line begins whose stamp is not below ``stamp_ns``; ``end`` if there is none.

    Both ends of the search are always beginnings of lines.
    """
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        start = max(low, data.rfind(_NEWLINE, low, middle) + 1)
        line, found_ns = _first_whole_line(data, start, high)
        if found_ns is None or found_ns >= stamp_ns:
            high = start
        else:
            low = data.find(_NEWLINE, line) + 1
    return low


def _first_whole_line(data: mmap.mmap, start: int, end: int) -> tuple[int, int | None]:
    """Where the first line begins that is one of ours, and its stamp; None if there is none."""
    while start < end:
        behind = data.find(_NEWLINE, start, end) + 1 or end
        head = _HEAD.match(data, start, behind)
        if head and data[behind - len(_TAIL) : behind] == _TAIL:
            return start, int(head[1])
        start = behind
    return end, None


def _needle(task: str | None) -> bytes:
    """What every line of the task holds: a search for it is much faster than decoding."""
    if task is None:
        return _NEWLINE
    return b" " + json.dumps(task, ensure_ascii=False).encode("utf-8", "backslashreplace") + b", "


def _forward(data: mmap.mmap, start: int, end: int, needle: bytes) -> Iterator[tuple[int, int]]:
    while (found := data.find(needle, start, end)) >= 0:
        first = max(start, data.rfind(_NEWLINE, start, found) + 1)
        start = data.find(_NEWLINE, found) + 1
        yield first, start


def _backward(data: mmap.mmap, start: int, end: int, needle: bytes) -> Iterator[tuple[int, int]]:
    while (found := data.rfind(needle, start, end)) >= 0:
        last = data.find(_NEWLINE, found) + 1
        end = max(start, data.rfind(_NEWLINE, start, found) + 1)
        yield end, last


def _decoded(data: bytes) -> LogLine | None:
    try:
        return decode(data)
    except (ValueError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class JobLog:
    """The logs of all jobs below one folder: ``UID/ATTEMPT/log/SEGMENT``."""

    root: Path

    def tail(self, uid: JobUid, count: int, *, task: str | None = None) -> list[LogLine]:
        """The last ``count`` lines, oldest first."""
        return list(islice(self.read(uid, Span(task=task, newest_first=True)), count))[::-1]

    def read(self, uid: JobUid, span: Span) -> Iterator[LogLine]:
        """The lines of a span, one by one."""
        segments = self._segments(uid)
        # a line may be in the last segment that begins before it
        first = max(0, bisect_right(segments, span.from_ns, key=lambda s: s.first_ns) - 1)
        chosen = segments[first:]
        for segment in reversed(chosen) if span.newest_first else chosen:
            if span.before_ns is None or segment.first_ns < span.before_ns:
                yield from segment.read(span)

    def prune(self, uid: JobUid, bytes_max: int) -> int:
        """Remove the oldest segments until what is left fits; how many were removed.

        The newest segment of every attempt stays, since it may still be written.
        """
        sizes = self._sizes(uid)
        excess = sum(size for _, size in sizes) - bytes_max
        newest = {path.parent: path for path, _ in sizes}
        removed = 0
        for path, size in sizes:
            if excess <= 0:
                break
            if newest[path.parent] != path:
                path.unlink(missing_ok=True)
                excess -= size
                removed += 1
        return removed

    def remove(self, uid: JobUid) -> None:
        """Remove all lines of a job that has ended."""
        for log in self._logs(uid):
            shutil.rmtree(log, ignore_errors=True)

    def uids(self) -> Iterator[JobUid]:
        """The jobs that have a folder."""
        with suppress(FileNotFoundError):
            names = (path.name for path in self.root.iterdir() if path.name.isdecimal())
            yield from sorted(JobUid(int(name)) for name in names)

    def _logs(self, uid: JobUid) -> list[Path]:
        found = (path for path in (self.root / str(uid)).glob(f"*/{LOG_FOLDER}"))
        numbered = ((path.parent.name, path) for path in found)
        return [p for _, p in sorted((int(name), p) for name, p in numbered if name.isdecimal())]

    def _paths(self, uid: JobUid) -> Iterator[Path]:
        for log in self._logs(uid):
            yield from sorted(log.glob(SEGMENT_PATTERN))

    def _sizes(self, uid: JobUid) -> list[tuple[Path, int]]:
        found = []
        for path in self._paths(uid):
            with suppress(FileNotFoundError):
                found.append((path, path.stat().st_size))
        return found

    def _segments(self, uid: JobUid) -> list[LogSegment]:
        found = (LogSegment.open(path) for path in self._paths(uid))
        return [segment for segment in found if segment is not None]
