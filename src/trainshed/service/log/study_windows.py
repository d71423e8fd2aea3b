"""Reads a window of the log of a study, which is the merge of its trials' logs."""

from trainshed.model.log_line import LogLine
from trainshed.service.log.stream import LogCursor
from trainshed.storage.line_filters import LineFilter


def read_study(
    cursor: LogCursor, stamp_ns: int | None, before: int, count: int, line_filter: LineFilter
) -> list[LogLine]:
    """Return ``count`` lines from a stamp on, or the last ones, after ``before`` earlier lines.

    With a filter of severities there may be fewer lines: ``before`` counts lines of all of them.
    """
    if before:
        cursor.skip_to_last(before, stamp_ns)
    elif stamp_ns is not None:
        cursor.skip_to(stamp_ns)
    lines: list[LogLine] = []
    while len(lines) < count:
        lines += (line for line in cursor.read() if _is_chosen(line, line_filter))
        if cursor.has_all:
            break
    return lines[:count]


def _is_chosen(line: LogLine, line_filter: LineFilter) -> bool:
    return line_filter.takes(line.task_name, line.severity)
