"""Reads a job's log as it grows: lines and events, each by their own order.

An event may be committed a moment after lines with later stamps were read.  It then comes late
rather than never.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Final

from trainshed.model.log_line import LogLine
from trainshed.service.log.sources import (
    LogSource,
    all_events,
    line_of,
    lines_of,
    sources,
    story_of,
    wants_story,
)
from trainshed.storage.log_files import JobLog
from trainshed.storage.log_segment import Span
from trainshed.store.opening import Store
from trainshed.store.records import JobRecord, StoredEvent

READ_MAX: Final = 1000


class LogCursor:
    """A place in the log of one job; never blocks."""

    def __init__(
        self,
        store: Store,
        job_log: JobLog,
        record: JobRecord,
        after_ns: int,
        trial: str | None = None,
    ) -> None:
        """Stand behind a stamp.  ``trial``: only the log of this trial's job, of a tuning job."""
        self._trial = trial
        self._store = store
        self._job_log = job_log
        self._record = record
        self._story = story_of(store, record, trial)
        self._after_ns = after_ns
        self._line_ns: dict[int, int] = {}
        """How far each source was read: those of a tuning job are its trials' jobs."""
        self._seq = 0
        self.has_all = False
        """Whether the last reading came to the end, as it was then."""
        self.is_over = False
        """Whether the job is final and all of its log was read."""

    def last(self, count: int, task: str | None) -> list[LogLine]:
        """The last lines of what is there now, of one task or all; the next reading goes on there.

        Costs what is shown, however long the log is.
        """
        lines: list[LogLine] = []
        for source in self._sources():
            newest = self._job_log.tail(source.uid, 1)
            behind = max([self._behind(source), *(line.stamp_ns for line in newest)])
            span = Span(task=task, before_ns=behind + 1, newest_first=True)
            found = islice(self._job_log.read(source.uid, span), count)
            lines += map(source.marked, found)
            self._line_ns[source.uid] = behind
        story = []
        for event in all_events(self._store, self._story.uid) if self._story else ():
            self._seq = event.seq
            if wants_story(task):
                story.append(self._as_line(event))
        return sorted((*story, *lines), key=lambda line: line.stamp_ns)[-count:]

    def read(self) -> list[LogLine]:
        """What has come since the last time, a few thousand lines at most; often nothing."""
        uid = self._story.uid if self._story else self._record.uid
        record = self._store.job_by_uid(uid)
        is_final = record is None or record.job.status.state.is_final
        lines, until_ns = self._new_lines()
        events = self._store.events(uid, after=self._seq, limit=READ_MAX)
        self.has_all = until_ns is None and len(events) < READ_MAX
        if until_ns is not None:  # later events wait for the lines before them
            events = [event for event in events if event.stamp_ns <= until_ns]
        self._seq = events[-1].seq if events else self._seq
        self.is_over = is_final and self.has_all
        story = [self._as_line(e) for e in events if self._story and e.stamp_ns > self._after_ns]
        return sorted((*story, *lines), key=lambda line: line.stamp_ns)

    def _as_line(self, event: StoredEvent) -> LogLine:
        return self._story.marked(line_of(event)) if self._story else line_of(event)

    def _new_lines(self) -> tuple[list[LogLine], int | None]:
        """Lines behind the marks; and up to when they are complete, None where they all are."""
        found = list(islice(merge(*map(self._lines, self._sources())), READ_MAX))
        self._line_ns |= {uid: stamp_ns for stamp_ns, uid, _ in found}
        until_ns = found[-1][0] if len(found) == READ_MAX else None
        return [line for _, _, line in found], until_ns

    def _lines(self, source: LogSource) -> Iterator[tuple[int, int, LogLine]]:
        """New lines of a source, each with its stamp and the source's uid."""
        span = Span(from_ns=max(0, self._behind(source) + 1))
        for line in lines_of(self._job_log, source, span):
            yield line.stamp_ns, source.uid, line

    def _behind(self, source: LogSource) -> int:
        return self._line_ns.get(source.uid, self._after_ns)

    def _sources(self) -> Sequence[LogSource]:
        return sources(self._store, self._record, from_ns=self._after_ns, trial=self._trial)
