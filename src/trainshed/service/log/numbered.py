"""Opens the log of a job by number: its lines, and the sentences of the service between them.

The service's sentences are events.  They have no number, because an event may be committed after
lines with later stamps.  The log of a study is a merge of its trials' logs and has no numbers; the
log of each trial has.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Final, NamedTuple

from trainshed.model.log_line import SEVERITIES, LogLine
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import JobUid
from trainshed.service.log.stream import (
    LogCursor,
    LogSource,
    all_events,
    check_trial,
    line_of,
    newest_events,
    sources,
    wants_story,
)
from trainshed.storage.line_filters import LineFilter
from trainshed.storage.log_files import JobLog
from trainshed.storage.log_index import LineIndex
from trainshed.storage.numbered_log import NumberedLog
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.steps import StoredEvent

#: The most sentences of one job that are read for a window.
SENTENCES_MAX: Final = 10_000
#: Seconds of counting after which a caller may pause.
_COUNTING_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSelection:
    """The lines of a log to read: of a task, a severity or graver ones, an attempt, a trial."""

    task: str | None = None
    severity: str = SEVERITIES[0]
    attempt: int | None = None
    trial: str | None = None

    @property
    def line_filter(self) -> LineFilter:
        return LineFilter(self.task, self.severity)


class LogRow(NamedTuple):
    """A line of a log with its number; None for a sentence of the service."""

    number: int | None
    line: LogLine


@dataclass(frozen=True, slots=True)
class OpenLog:
    """The log of one job or trial: lines by number, and sentences in the order of their stamps."""

    source: LogSource
    numbered: NumberedLog
    sentences: "Sentences"


@dataclass(frozen=True, slots=True)
class Sentences:
    """The selected sentences of the service about one job; read in pages, for there may be many."""

    store: Store
    source: LogSource
    selection: LogSelection

    def __iter__(self) -> Iterator[LogLine]:
        """Yield all sentences, the oldest first."""
        if wants_story(self.selection.task):
            yield from self._render(all_events(self.store, self.source.uid))

    def newest(self, after_ns: int | None, until_ns: int | None, most: int) -> list[LogLine]:
        """Return the newest sentences after one stamp and until another, the oldest first.

        None is no bound.  Of a job with very many, those among the last 10,000 before ``until_ns``.
        """
        if not wants_story(self.selection.task):
            return []
        events = newest_events(self.store, self.source.uid, until_ns)
        newer = takewhile(lambda event: after_ns is None or event.stamp_ns > after_ns, events)
        return list(islice(self._render(islice(newer, SENTENCES_MAX)), most))[::-1]

    def _render(self, events: Iterable[StoredEvent]) -> Iterator[LogLine]:
        takes, attempt = self.selection.line_filter.takes, self.selection.attempt
        for event in events:
            line = self.source.marked(line_of(event))
            if attempt in (None, event.attempt) and takes(line.task_name, line.severity):
                yield line


@dataclass(frozen=True, slots=True)
class NumberedLogs:
    """Opens logs by number, and keeps the index of their segments.  Thread-safe."""

    store: Store
    job_log: JobLog
    index: LineIndex = field(default_factory=LineIndex)

    def source(self, record: JobRecord, trial: str | None) -> LogSource | None:
        """Return the job whose lines have numbers; None for a study without a requested trial.

        Raises Refusal for a trial that does not exist.
        """
        check_trial(self.store, record, trial)
        if record.job.spec.is_study and trial is None:
            return None
        return next(iter(sources(self.store, record, trial=trial)), LogSource(record.uid))

    def open(self, source: LogSource, selection: LogSelection) -> OpenLog:
        """Open the log as it is now; its lines are not counted yet."""
        numbered = NumberedLog(
            self.job_log.segments(source.uid),
            self.index,
            selection.line_filter,
            selection.attempt,
        )
        return OpenLog(source, numbered, Sentences(self.store, source, selection))

    def count_lines(self, uid: JobUid, is_late: Callable[[], bool]) -> int | None:
        """Return the number of lines of a job's log; None if it is late before all are counted."""
        numbered = NumberedLog(self.job_log.segments(uid), self.index)
        return numbered.line_count if numbered.count_lines(is_late) else None

    def numbered_source(self, record: JobRecord, trial: str | None) -> LogSource:
        """Return the job whose lines have numbers.

        Raises Refusal for a study without a requested trial, and for a missing trial.
        """
        source = self.source(record, trial)
        if source is None:
            raise Refusal(
                Code.INVALID_ARGUMENT,
                "the lines of a tuning job have no numbers, because they are those of its trials: "
                "name a trial (trial=N)",
            )
        return source

    def skip_to_line(self, cursor: LogCursor, source: LogSource, number: int) -> Iterator[None]:
        """Move a reader to the line with a number, or behind the last line; yield to pause."""
        numbered = NumberedLog(self.job_log.segments(source.uid), self.index)
        yield from count_in_turns(numbered)
        before = min(number - 1, numbered.total) - 1
        last = next(numbered.read(before), None) if before >= 0 else None
        cursor.skip_to(last.line.stamp_ns + 1 if last else 0)

    def study_cursor(self, record: JobRecord, task: str | None) -> LogCursor:
        """Return a reader of the merged log of a study's trials."""
        return LogCursor(self.store, self.job_log, record, 0, task=task)


def count_in_turns(
    numbered: NumberedLog, clock: Callable[[], float] = time.monotonic
) -> Iterator[None]:
    """Count all lines of a log; yield when it is time to pause."""
    late_s = clock() + _COUNTING_S
    while not numbered.count_lines(lambda: clock() > late_s):  # noqa: B023 - it is called before the next turn
        yield
        late_s = clock() + _COUNTING_S


def merge_rows(rows: Iterable[LogRow], sentences: Iterable[LogLine]) -> Iterator[LogRow]:
    """Yield the rows in their order, each after the sentences that are not younger than it.

    Sentences that are younger than all rows come last.
    """
    waiting = iter(sentences)
    sentence = next(waiting, None)
    for row in rows:
        while sentence is not None and sentence.stamp_ns <= row.line.stamp_ns:
            yield LogRow(None, sentence)
            sentence = next(waiting, None)
        yield row
    if sentence is not None:
        yield LogRow(None, sentence)
        yield from (LogRow(None, line) for line in waiting)
