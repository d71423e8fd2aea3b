"""Reads a window of the log of a study, which is the merge of its trials' logs."""

from collections.abc import Callable

from trainshed.model.log_line import LogLine
from trainshed.service.log.stream import LogCursor
from trainshed.storage.line_filters import LineFilter


def skip_to_stamp(cursor: LogCursor, stamp_ns: int | None, before: int) -> None:
    """Move to ``before`` lines, of all severities, before a stamp or the end."""
    if before:
        cursor.skip_to_last(before, stamp_ns)
    elif stamp_ns is not None:
        cursor.skip_to(stamp_ns)


def read_study(
    cursor: LogCursor, count: int, line_filter: LineFilter, is_late: Callable[[], bool]
) -> list[LogLine]:
    """Return the next ``count`` selected lines; fewer at the end, and when it is late."""
    lines: list[LogLine] = []
    while len(lines) < count:
        lines += (line for line in cursor.read() if _is_chosen(line, line_filter))
        if cursor.has_all or is_late():
            break
    return lines[:count]


def _is_chosen(line: LogLine, line_filter: LineFilter) -> bool:
    return line_filter.takes(line.task_name, line.severity)
