"""One file of a log: the lines of a span are found by halving, and read through the page cache.

Lines that somebody has damaged are passed over; all others are found.
"""

import json
import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Self

from trainshed.model.log_line import LogLine, decode

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
