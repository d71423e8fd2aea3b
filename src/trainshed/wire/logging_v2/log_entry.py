"""One LogEntry: the document that clients get, and the values that a filter compares."""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from trainshed.model.log_line import LogLine
from trainshed.model.severity import payload_of
from trainshed.wire.times import timestamp

RESOURCE_TYPE: Final = "ml_job"
TRIAL_LABEL: Final = "ml.googleapis.com/trial_id"


class LogEntry:
    """A line of a job's log as Cloud Logging would show it."""

    __slots__ = ("_payload", "job_id", "line", "project", "source", "uid")

    def __init__(self, line: LogLine, uid: int, source: int, *, project: str, job_id: str) -> None:
        """``uid`` and ``source`` say where the line is kept, in the order within one stamp."""
        self.line = line
        self.uid = uid
        self.source = source
        self.project = project
        self.job_id = job_id
        self._payload: Mapping[str, Any] | None = None

    @property
    def insert_id(self) -> str:
        """The insertId: the same at every read, ascending as text (docs/sources/gcloud.md 7.3)."""
        return f"{self.line.stamp_ns:020d}-{self.uid:020d}-{self.source}"

    @property
    def payload(self) -> Mapping[str, Any]:
        """The jsonPayload; a structured line keeps all of its fields."""
        if self._payload is None:
            self._payload = payload_of(self.line.text) or {"message": self.line.text}
        return self._payload

    @property
    def log_name(self) -> str:
        """The logName: one log a task."""
        return f"{log_name_prefix(self.project)}{quote(self.line.task_name, safe='')}"

    @property
    def resource_labels(self) -> Mapping[str, str]:
        """The labels of the MonitoredResource."""
        task = self.line.task_name
        return {"job_id": self.job_id, "task_name": task, "project_id": self.project}

    @property
    def labels(self) -> Mapping[str, str]:
        """The entry's own labels: those of a line of a trial name the trial."""
        return {TRIAL_LABEL: self.line.trial} if self.line.trial else {}

    def render(self) -> dict[str, Any]:
        """The document that clients get."""
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
        """The values that a word without a field is looked for in, the payload first.

        Times and insertIds are left out: their digits would match most numbers.
        """
        line = self.line
        yield from leaves(self.payload)
        yield from (line.task_name, line.severity, line.trial, self.job_id, self.project)
        yield from (RESOURCE_TYPE, self.log_name)


def log_name_prefix(project: str) -> str:
    """Return what all logNames of a project begin with."""
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
