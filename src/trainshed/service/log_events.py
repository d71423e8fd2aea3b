"""A job's story as lines of its log: the service's own words are kept once, as events."""

from collections.abc import Iterator
from typing import Final

from trainshed.model.log_line import SERVICE_TASK, SEVERITIES, LogLine
from trainshed.store.base import Jobs
from trainshed.store.records import StoredEvent

_READ_MAX: Final = 1000

#: Kinds of events that are more than a piece of news.
_GRAVE: Final = {"FAILED": "ERROR", "RESTARTING": "WARNING", "ENGINE_RETRIED": "WARNING"}


def all_events(store: Jobs, uid: int) -> Iterator[StoredEvent]:
    """The whole story of a job."""
    seq = 0
    while events := store.events(uid, after=seq, limit=_READ_MAX):
        yield from events
        seq = events[-1].seq


def line_of(event: StoredEvent) -> LogLine:
    """A sentence of a job's story as a line of its log.

    Its severity is the event's own (``data["severity"]``), or follows from its kind.
    """
    said = event.data.get("severity")
    return LogLine(
        stamp_ns=event.stamp_ns,
        task_name=SERVICE_TASK,
        text=event.message,
        severity=str(said) if said in SEVERITIES else _GRAVE.get(event.kind, "INFO"),
    )


def is_told(task: str | None) -> bool:
    """Whether somebody who asks for the lines of this task asks for the story."""
    return task in (None, SERVICE_TASK)
