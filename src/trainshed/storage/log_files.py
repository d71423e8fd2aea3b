"""Reads the lines that attempts have written, while they write them.

Stamps ascend within a job, so a line is found by its stamp: first its segment, then its place in
it.  Nothing is indexed or copied, and nothing is held open between two calls.
"""

import shutil
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from trainshed.model.log_line import LOG_FOLDER, SEGMENT_PATTERN, LogLine
from trainshed.model.resource_names import JobUid
from trainshed.storage.log_segment import LogSegment, Span


@dataclass(frozen=True, slots=True)
class JobLog:
    """The logs of all jobs below one folder: ``UID/ATTEMPT/log/SEGMENT``."""

    root: Path

    def lines(  # noqa: PLR0913 - what one may ask of a log
        self,
        uid: JobUid,
        *,
        limit: int,
        after_ns: int | None = None,
        from_ns: int | None = None,
        before_ns: int | None = None,
        task: str | None = None,
    ) -> list[LogLine]:
        """At most ``limit`` whole lines of a job, oldest first.

        ``after_ns`` is a stamp that was seen, ``from_ns`` the first that may be, ``before_ns`` the
        first that is too late.  Of a log that was pruned meanwhile, what is left is given.
        """
        first = max(from_ns or 0, 0 if after_ns is None else after_ns + 1)
        span = Span(from_ns=first, before_ns=before_ns, task=task)
        return list(islice(self.read(uid, span), limit))

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

    def size(self, uid: JobUid) -> int:
        """How many bytes a job's log takes."""
        return sum(size for _, size in self._sizes(uid))

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
        """The log folders of a job's attempts, in their order."""
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
