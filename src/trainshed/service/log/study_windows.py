"""Reads a window of the log of a study, which is the merge of its trials' logs."""

from collections.abc import Callable
from itertools import takewhile

from trainshed.model.log_line import LogLine
from trainshed.service.log.stream import LogCursor
from trainshed.storage.line_filters import LineFilter


def skip_to_stamp(
    cursor: LogCursor, stamp_ns: int | None, before: int, is_late: Callable[[], bool]
) -> int | None:
    """Move to ``before`` lines, of all severities, before a stamp or the end.

    If it is late before, move less far, and return the stamp of the last examined line.
    """
    if before:
        turns = cursor.skip_in_turns(before, stamp_ns)
        for _ in takewhile(lambda _: not is_late(), turns):
            pass
        turns.close()
    elif stamp_ns is not None:
        cursor.skip_to(stamp_ns)
    return cursor.examined_ns


def read_study(
    cursor: LogCursor, count: int, line_filter: LineFilter, is_late: Callable[[], bool]
) -> tuple[list[LogLine], int | None]:
    """Return the next ``count`` selected lines; fewer at the end, and when it is late.

    When it is late also return the stamp of the first line that was not examined.
    """
    lines: list[LogLine] = []
    while len(lines) < count:
        lines += (line for line in cursor.read() if _is_chosen(line, line_filter))
        if cursor.has_all or is_late():
            break
    is_over = len(lines) >= count or cursor.until_ns is None
    return lines[:count], None if is_over else (cursor.until_ns or 0) + 1


def _is_chosen(line: LogLine, line_filter: LineFilter) -> bool:
    return line_filter.takes(line.task_name, line.severity)
