"""A job's log as the native API streams it: one JSON object a line."""

from collections.abc import Iterable
from typing import Any

from trainshed.model.log_line import LogLine
from trainshed.service.log_stream import LogCursor
from trainshed.service.story import stamp

Json = dict[str, Any]

_NS = 1_000_000_000


class NativeLog:
    """Reads one job's log from its beginning; never waits, so that many may be followed at once.

    ``task``: only the lines of one replica, or of ``service``.
    """

    def __init__(self, cursor: LogCursor, task: str | None) -> None:
        """Stand at the beginning."""
        self._cursor = cursor
        self._task = task

    @property
    def is_over(self) -> bool:
        """Whether the job has ended and all of its log was read."""
        return self._cursor.is_over

    def tail(self, count: int) -> list[Json]:
        """The last lines of what is there now."""
        return [_shown(line) for line in self._cursor.last(count, self._task)]

    def read(self) -> tuple[list[Json], bool]:
        """What has come since the last time, and whether there is more at once."""
        lines = self._cursor.read()
        return [_shown(line) for line in self._wanted(lines)], bool(lines)

    def _wanted(self, lines: Iterable[LogLine]) -> Iterable[LogLine]:
        return (line for line in lines if self._task in (None, line.task_name))


def _shown(line: LogLine) -> Json:
    seconds, fraction = divmod(line.stamp_ns, _NS)
    found = {
        "time": stamp(seconds, fraction),
        "task": line.task_name,
        "severity": line.severity,
        "message": line.text,
    }
    return {**found, "trial": line.trial} if line.trial else found
