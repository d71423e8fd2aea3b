"""Finds the log lines of a job's attempts: first the segment by its stamps, then the line in it.

There is no index, and no file stays open between two calls.
"""

import os
import shutil
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from trainshed.files.beneath import NOT_A_FILE, Beneath, FileKind
from trainshed.model.log_line import LOG_FOLDER, SEGMENT_PATTERN, LogLine
from trainshed.model.resource_names import JobUid
from trainshed.storage.log_segments import LogSegment, Span


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
        segments = self.segments(uid)
        # the first line of the span may be in the last segment that begins before it
        first = max(0, bisect_right(segments, span.from_ns, key=lambda s: s.first_ns) - 1)
        chosen = segments[first:]
        for segment in reversed(chosen) if span.newest_first else chosen:
            if span.before_ns is None or segment.first_ns < span.before_ns:
                yield from segment.read(span)

    def size_bytes(self, uid: JobUid) -> int:
        """Return the size of a job's log."""
        total = 0
        for root in self._roots:
            with self._open_root(root) as jobs:
                total += sum(size for _, size in self._sizes(jobs, uid))
        return total

    def prune(self, uid: JobUid, bytes_max: int) -> int:
        """Remove the oldest segments until a job's log has at most ``bytes_max`` bytes.

        Returns how many bytes were removed.  The newest segment of every attempt stays, because
        a supervisor may still write to it.
        """
        return sum(self._prune(root, uid, bytes_max) for root in self._roots)

    def _prune(self, root: Path, uid: JobUid, bytes_max: int) -> int:
        """Remove the oldest segments below one root; return how many bytes were removed."""
        removed_bytes = 0
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
                        removed_bytes += size
                    excess -= size
        return removed_bytes

    def remove(self, uid: JobUid) -> int:
        """Remove all lines of a job that has ended; return how many bytes were removed."""
        size_bytes = self.size_bytes(uid)
        for root in self._roots:
            with self._open_root(root) as jobs:
                for log in self._logs(jobs, uid):
                    with suppress(OSError), jobs.parent(log) as (folder, leaf):
                        shutil.rmtree(leaf, ignore_errors=True, dir_fd=folder)
        return size_bytes - self.size_bytes(uid)

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

    def segments(self, uid: JobUid) -> list[LogSegment]:
        """Return the files with lines, in the order of their lines."""
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
