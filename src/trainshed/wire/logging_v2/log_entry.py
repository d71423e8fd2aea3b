"""Renders a line of a job's log as a LogEntry, and returns the values that filters compare."""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from trainshed.model.log_line import LogLine
from trainshed.model.severity import payload_of
from trainshed.wire.times import timestamp

RESOURCE_TYPE: Final = "ml_job"
TRIAL_LABEL: Final = "ml.googleapis.com/trial_id"


class LogEntry:
    """A line of a job's log in the form of Cloud Logging."""

    __slots__ = ("_payload", "job_id", "line", "project", "source", "uid")

    def __init__(self, line: LogLine, uid: int, source: int, *, project: str, job_id: str) -> None:
        """``uid`` and ``source`` identify the stored log, and order lines with the same stamp."""
        self.line = line
        self.uid = uid
        self.source = source
        self.project = project
        self.job_id = job_id
        self._payload: Mapping[str, Any] | None = None

    @property
    def insert_id(self) -> str:
        """The insertId: equal in all reads, and ascending as text (docs/sources/gcloud.md 7.3)."""
        return f"{self.line.stamp_ns:020d}-{self.uid:020d}-{self.source}"

    @property
    def payload(self) -> Mapping[str, Any]:
        """The jsonPayload: all fields of a structured line, or the text as ``message``."""
        if self._payload is None:
            self._payload = payload_of(self.line.text) or {"message": self.line.text}
        return self._payload

    @property
    def log_name(self) -> str:
        """The logName; each task has one."""
        return f"{log_name_prefix(self.project)}{quote(self.line.task_name, safe='')}"

    @property
    def resource_labels(self) -> Mapping[str, str]:
        """The labels of the MonitoredResource."""
        task = self.line.task_name
        return {"job_id": self.job_id, "task_name": task, "project_id": self.project}

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the entry: the trial, if the line is of one."""
        return {TRIAL_LABEL: self.line.trial} if self.line.trial else {}

    def render(self) -> dict[str, Any]:
        """Return the LogEntry as JSON for clients."""
        stamp = timestamp(self.line.stamp_ns)
        document: dict[str, Any] = {
            "timestamp": stamp,
            "receiveTimestamp": stamp,
            "insertId": self.insert_id,
            "severity": self.line.severity,
            "logName": self.log_name,
            "resource": {"type": RESOURCE_TYPE, "labels": dict(self.resource_labels)},
            "jsonPayload": dict(self.payload),
        }
        if self.labels:
            document["labels"] = dict(self.labels)
        return document

    def searched_values(self) -> Iterator[Any]:
        """Yield the values in which a word without a field is searched, the payload first.

        Leaves out times and insertIds, because their digits match most numbers.
        """
        line = self.line
        yield from leaves(self.payload)
        yield from (line.task_name, line.severity, line.trial, self.job_id, self.project)
        yield from (RESOURCE_TYPE, self.log_name)


def log_name_prefix(project: str) -> str:
    """Return the prefix of all logNames of a project."""
    return f"projects/{project}/logs/"


def leaves(value: Any) -> Iterator[Any]:
    """Yield the values of a JSON value that are neither lists nor objects."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value
