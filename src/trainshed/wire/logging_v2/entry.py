"""One line of a log as a LogEntry, with all that gcloud prints of it (contracts/gcloud.md 7.5)."""

from typing import Any, Final
from urllib.parse import quote

from trainshed.model.log_line import LogLine
from trainshed.model.severity import payload_of
from trainshed.wire.times import timestamp

_TRIAL_LABEL: Final = "ml.googleapis.com/trial_id"


def entry(line: LogLine, insert_id: str, *, project: str, job_id: str) -> dict[str, Any]:
    """The LogEntry of a line of a job; a structured line keeps all of its fields."""
    labels = {"job_id": job_id, "task_name": line.task_name, "project_id": project}
    found: dict[str, Any] = {
        "timestamp": timestamp(line.stamp_ns),
        "receiveTimestamp": timestamp(line.stamp_ns),
        "insertId": insert_id,
        "severity": line.severity,
        "logName": f"projects/{project}/logs/{quote(line.task_name, safe='')}",
        "resource": {"type": "ml_job", "labels": labels},
        "jsonPayload": payload_of(line.text) or {"message": line.text},
    }
    if line.trial:
        found["labels"] = {_TRIAL_LABEL: line.trial}
    return found
