"""A job's log as the native API streams it: one JSON object a line."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from trainshed.model.log_line import LogLine
from trainshed.service.logs import LogService
from trainshed.service.story import stamp
from trainshed.store.records import JobRecord

_NS = 1_000_000_000


def log_objects(
    logs: LogService, record: JobRecord, *, follow: bool, tail: int | None, task: str | None
) -> Iterator[dict[str, Any]]:
    """The lines of a job, oldest first.

    ``tail``: only so many of those that are there.  ``follow``: go on until the job has ended and
    all was read.  ``task``: of one replica, or of ``service``.
    """
    cursor = logs.cursor(record)
    there = _of(task, _all_of(iter(cursor.read, [])))
    yield from map(_shown, deque(there, tail) if tail else there)
    if follow and not cursor.is_over:
        behind = logs.followed(cursor)
        yield from map(_shown, _of(task, behind))


def _all_of(pages: Iterable[list[LogLine]]) -> Iterator[LogLine]:
    for page in pages:
        yield from page


def _of(task: str | None, lines: Iterable[LogLine]) -> Iterator[LogLine]:
    return (line for line in lines if task in (None, line.task_name))


def _shown(line: LogLine) -> dict[str, Any]:
    seconds, fraction = divmod(line.stamp_ns, _NS)
    found = {
        "time": stamp(seconds, fraction),
        "task": line.task_name,
        "severity": line.severity,
        "message": line.text,
    }
    return {**found, "trial": line.trial} if line.trial else found
