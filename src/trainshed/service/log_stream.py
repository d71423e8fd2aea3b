"""Reads a job's log as it grows: lines and events, each by their own order.

An event may be committed a moment after lines with later stamps were read.  It then comes late
rather than never.
"""

from itertools import islice
from typing import Final

from trainshed.model.log_line import LogLine
from trainshed.service.log_events import all_events, is_told, line_of
from trainshed.storage.log_files import JobLog
from trainshed.storage.log_segment import Span
from trainshed.store.base import Jobs

READ_MAX: Final = 1000


class LogCursor:
    """A place in the log of one job; never blocks."""

    def __init__(self, store: Jobs, job_log: JobLog, uid: int, after_ns: int) -> None:
        """Stand behind a stamp."""
        self._store = store
        self._job_log = job_log
        self._uid = uid
        self._after_ns = after_ns
        self._line_ns = after_ns
        self._seq = 0
        self.has_all = False
        """Whether the last reading came to the end, as it was then."""
        self.is_over = False
        """Whether the job is final and all of its log was read."""

    def last(self, count: int, task: str | None) -> list[LogLine]:
        """The last lines of what is there now, of one task or all; the next reading goes on there.

        Costs what is shown, however long the log is.
        """
        newest = self._job_log.tail(self._uid, 1)
        self._line_ns = max([self._line_ns, *(line.stamp_ns for line in newest)])
        span = Span(task=task, before_ns=self._line_ns + 1, newest_first=True)
        lines = list(islice(self._job_log.read(self._uid, span), count))
        said = []
        for event in all_events(self._store, self._uid):
            self._seq = event.seq
            if is_told(task):
                said.append(line_of(event))
        return sorted((*said, *lines), key=lambda line: line.stamp_ns)[-count:]

    def read(self) -> list[LogLine]:
        """What has come since the last time, a few thousand lines at most; often nothing."""
        record = self._store.job_by_uid(self._uid)
        is_final = record is None or record.job.status.state.is_final
        lines = self._job_log.lines(self._uid, after_ns=self._line_ns, limit=READ_MAX)
        events = self._store.events(self._uid, after=self._seq, limit=READ_MAX)
        self.has_all = READ_MAX not in (len(lines), len(events))
        if len(lines) == READ_MAX:  # later events wait for the lines before them
            events = [event for event in events if event.stamp_ns <= lines[-1].stamp_ns]
        self._line_ns = lines[-1].stamp_ns if lines else self._line_ns
        self._seq = events[-1].seq if events else self._seq
        self.is_over = is_final and self.has_all
        said = [line_of(event) for event in events if event.stamp_ns > self._after_ns]
        return sorted((*said, *lines), key=lambda line: line.stamp_ns)
