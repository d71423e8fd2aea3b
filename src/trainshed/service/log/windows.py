"""Returns a window of a log: some lines around a number, a stamp, a share or the end.

Every sentence of the service belongs to the line behind it, so windows that follow one another
have each sentence once.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from trainshed.model.log_line import SERVICE_TASK
from trainshed.model.refusals import Code, Refusal
from trainshed.service.log.log_rows import Json, render_window
from trainshed.service.log.numbered import (
    LogRow,
    LogSelection,
    NumberedLogs,
    OpenLog,
    merge_rows,
)
from trainshed.service.log.study_windows import read_study, skip_to_stamp
from trainshed.storage.numbered_log import NumberedLine, NumberedLog
from trainshed.store.records.jobs import JobRecord

#: The numbers of lines of one window: by default, and at most.
COUNT: Final = 200
COUNT_MAX: Final = 2000
#: A window ends early when its lines have more bytes in their files than this.
BYTES_MAX: Final = 1 << 25
#: The most sentences of the service in one window; older ones are left out.
SENTENCES_MAX: Final = 1000
#: Seconds after which a request counts no more lines; the next request continues.
COUNT_S_MAX: Final = 1.0
#: Seconds after which a request reads no more lines of a study that its filter leaves out.
STUDY_S_MAX: Final = 2.0
#: If a window cannot reach back to its line because its lines are long, it reaches back less.
_SHRINKING: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """The position of a window: at most one of the first four; none of them is the end.

    ``before`` is the number of lines of the window that precede it.
    """

    line: int | None = None
    """The first selected line with this number or a higher one."""
    row: int | None = None
    """The selected line at this position, from 1."""
    stamp_ns: int | None = None
    """The first selected line with this stamp or a later one."""
    share: float | None = None
    """The selected line behind this share of the selected lines, 0 to 1."""
    before: int = 0

    def __post_init__(self) -> None:
        """Raise Refusal for more than one position."""
        positions = (self.line, self.row, self.stamp_ns, self.share)
        if sum(position is not None for position in positions) > 1:
            raise Refusal(
                Code.INVALID_ARGUMENT,
                "a window has one position: line, row, stamp, share or end=true",
            )

    @property
    def is_end(self) -> bool:
        return (self.line, self.row, self.stamp_ns, self.share) == (None, None, None, None)

    @property
    def needs_numbers(self) -> bool:
        return (self.line, self.row, self.share) != (None, None, None)


@dataclass(frozen=True, slots=True)
class LogWindows:
    """Reads windows of logs.  Thread-safe."""

    logs: NumberedLogs
    clock: Callable[[], float] = field(default=time.monotonic, kw_only=True)

    def window(
        self, record: JobRecord, selection: LogSelection, position: LogPosition, count: int = COUNT
    ) -> Json:
        """Return a window of at most ``count`` numbered lines; fewer if they are very long.

        Raises Refusal for a trial that does not exist, and for a number in a study.
        """
        source = self.logs.source(record, selection.trial)
        if source is None:
            return self._study_window(record, selection, position, count)
        log = self.logs.open(source, selection)
        late_s = self.clock() + COUNT_S_MAX
        log.numbered.count_lines(lambda: self.clock() > late_s)
        start, rows = _read_rows(log, position, count, self._lateness())
        tasks = self._tasks(source.uid, (row.line.task_name for row in rows))
        return render_window(log.numbered, start, rows, tasks)

    def _study_window(
        self, record: JobRecord, selection: LogSelection, position: LogPosition, count: int
    ) -> Json:
        if position.needs_numbers or selection.attempt is not None:
            raise Refusal(
                Code.INVALID_ARGUMENT,
                "the lines of a tuning job have no numbers and no attempts, because they are those "
                "of its trials: name a trial (trial=N), or a position by stamp or end=true",
            )
        before = max(position.before, count if position.is_end else 0)
        cursor = self.logs.study_cursor(record, selection.task)
        unread_before_ns = skip_to_stamp(cursor, position.stamp_ns, before, self._lateness())
        takes = selection.line_filter
        lines, unread_from_ns = read_study(cursor, count, takes, self._lateness())
        tasks = self._tasks(record.uid, (line.task_name for line in lines))
        window = render_window(None, 0, [LogRow(None, line) for line in lines], tasks)
        unread = {"unreadBefore": unread_before_ns, "unreadFrom": unread_from_ns}
        return window | {name: str(ns) for name, ns in unread.items() if ns is not None}

    def _lateness(self) -> Callable[[], bool]:
        """Return whether more than ``STUDY_S_MAX`` have passed since this call."""
        late_s = self.clock() + STUDY_S_MAX
        return lambda: self.clock() > late_s

    def _tasks(self, uid: int, names: Iterable[str]) -> list[str]:
        replicas = self.logs.store.replicas(uid)
        tasks = dict.fromkeys([*(replica.task_name for replica in replicas), *names])
        return [task for task in tasks if task != SERVICE_TASK]


def _read_rows(
    log: OpenLog, position: LogPosition, count: int, is_late: Callable[[], bool]
) -> tuple[int, list[LogRow]]:
    """Return the position of the first line of a window, and the window's rows."""
    numbered = log.numbered
    at = _find_index(numbered, position)
    before = min(count, at, max(position.before, count if position.is_end else 0))
    lines, last_ns = _take(numbered, at - before, count, is_late)
    while before > 1 and len(lines) < min(before + 1, numbered.total - at + before, count):
        before = max(1, before // _SHRINKING)
        lines, last_ns = _take(numbered, at - before, count, is_late)
    start = at - before
    is_end = start + len(lines) >= numbered.total
    until_ns = None if is_end else lines[-1].line.stamp_ns if lines else last_ns
    sentences = log.sentences.newest(last_ns, until_ns, SENTENCES_MAX)
    rows = [LogRow(line.number, log.source.marked(line.line)) for line in lines]
    return start, list(merge_rows(rows, sentences))


def _find_index(numbered: NumberedLog, position: LogPosition) -> int:
    """Return the index of the line at a position, from 0; the number of lines if none is."""
    if position.line is not None:
        return numbered.position_of(position.line)
    if position.row is not None:
        return min(position.row - 1, numbered.total)
    if position.stamp_ns is not None:
        return numbered.position_at(position.stamp_ns)
    if position.share is not None:
        return int(position.share * numbered.total)
    return numbered.total


def _take(
    numbered: NumberedLog, start: int, count: int, is_late: Callable[[], bool]
) -> tuple[list[NumberedLine], int | None]:
    """Return lines from a position on, and the stamp of the line before them."""
    lines = numbered.read(max(0, start - 1), is_late)
    last = next(lines, None) if start else None
    taken, size = [], 0
    for line in islice(lines, count):
        taken.append(line)
        size += line.size
        if size > BYTES_MAX:
            break
    return taken, last.line.stamp_ns if last else None
