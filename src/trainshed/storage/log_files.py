"""Reads the lines that attempts have written, while they write them.

Stamps ascend within a job, so a line is found by its stamp: first its segment, then its place in
it.  Nothing is indexed or copied, and nothing is held open between two calls.
Within a file the lines of a span are found by halving, through the page cache; damaged lines are
passed over.
"""

import json
import mmap
import os
import re
import shutil
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final, Self

from trainshed.files.beneath import NOT_A_FILE, Beneath, Kind
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

    root: Path
    name: str
    """Its path below ``root``, without links: the job may have put anything there."""
    first_ns: int

    @classmethod
    def open(cls, root: Path, name: str) -> Self | None:
        """The segment of a path; None while it has no line, when it is gone or no file of ours."""
        try:
            return cls(root, name, _first_stamp(root, name))
        except ValueError:
            return None
        except OSError as error:
            if error.errno not in NOT_A_FILE:
                raise
            return None

    def read(self, span: Span) -> Iterator[LogLine]:
        """The whole lines of a span; a torn last one does not count, nor does a file that went."""
        with _mapped(self.root, self.name) as data:
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
def _first_stamp(root: Path, name: str) -> int:
    """The stamp of the first line, which never changes.  Raises ValueError while there is none."""
    with Beneath(root) as jobs, jobs.read(name) as file:
        for line in file:
            if (head := _HEAD.match(line)) and line.endswith(_TAIL):
                return int(head[1])
    raise ValueError(f"{name} has no line")


@contextmanager
def _mapped(root: Path, name: str) -> Iterator[mmap.mmap | None]:
    with ExitStack() as held:
        try:
            file = held.enter_context(held.enter_context(Beneath(root)).read(name))
        except OSError as error:
            if error.errno not in NOT_A_FILE:
                raise
            yield None
            return
        yield held.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


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
        removed = 0
        with self._opened() as jobs:
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
        with self._opened() as jobs:
            for log in self._logs(jobs, uid):
                with suppress(OSError), jobs.parent(log) as (folder, leaf):
                    shutil.rmtree(leaf, ignore_errors=True, dir_fd=folder)

    def uids(self) -> Iterator[JobUid]:
        """The jobs that have a folder."""
        with suppress(FileNotFoundError):
            names = (path.name for path in self.root.iterdir() if path.name.isdecimal())
            yield from sorted(JobUid(int(name)) for name in names)

    @contextmanager
    def _opened(self) -> Iterator[Beneath]:
        self.root.mkdir(parents=True, exist_ok=True)
        with Beneath(self.root) as jobs:
            yield jobs

    def _logs(self, jobs: Beneath, uid: JobUid) -> list[str]:
        """The folders of a job's attempts, oldest first."""
        found = [int(name) for name, _ in _entries(jobs, str(uid)) if name.isdecimal()]
        return [f"{uid}/{attempt}/{LOG_FOLDER}" for attempt in sorted(found)]

    def _names(self, jobs: Beneath, uid: JobUid) -> Iterator[str]:
        for log in self._logs(jobs, uid):
            names = (name for name, kind in _entries(jobs, log) if kind is Kind.FILE)
            yield from (
                f"{log}/{name}" for name in sorted(names) if fnmatchcase(name, SEGMENT_PATTERN)
            )

    def _sizes(self, jobs: Beneath, uid: JobUid) -> list[tuple[str, int]]:
        found = []
        for name in self._names(jobs, uid):
            with suppress(FileNotFoundError):
                found.append((name, jobs.stat(name).st_size))
        return found

    def _segments(self, uid: JobUid) -> list[LogSegment]:
        with self._opened() as jobs:
            names = list(self._names(jobs, uid))
        found = (LogSegment.open(self.root, name) for name in names)
        return [segment for segment in found if segment is not None]


def _entries(jobs: Beneath, folder: str) -> list[tuple[str, Kind]]:
    try:
        return jobs.entries(folder)
    except OSError as error:
        if error.errno not in NOT_A_FILE:
            raise
        return []
