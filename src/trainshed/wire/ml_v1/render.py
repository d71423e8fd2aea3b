"""A job of the model as a Job of ``ml/v1``: the caller's document and what was observed.

Clients depend on more than the schema says: ``etag`` is padded base64, or gcloud crashes;
``endTime`` is set with every final state, or log streaming never ends (contracts/gcloud.md 2 and
10.3).
"""

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from trainshed.model.status import Job, JobState
from trainshed.wire.telling import ending, waiting, with_labels
from trainshed.wire.times import rfc3339

#: This dialect's word for every state (contracts/gcloud.md 10.3).
STATE: Final[Mapping[JobState, str]] = {
    JobState.QUEUED: "QUEUED",
    JobState.PREPARING: "PREPARING",
    JobState.RUNNING: "RUNNING",
    JobState.RESTARTING: "RUNNING",  # neither dialect has a word for it
    JobState.CANCELLING: "CANCELLING",
    JobState.SUCCEEDED: "SUCCEEDED",
    JobState.FAILED: "FAILED",
    JobState.CANCELLED: "CANCELLED",
}


#: What ``describe --summarize`` prints of a job that has run: nothing is billed here.
TRAINING_OUTPUT: Final = {"consumedMLUnits": 0.0}


def job(job: Job) -> dict[str, Any]:
    """The Job as its clients read it; 64-bit numbers are texts, times are RFC 3339 with Z."""
    request: dict[str, Any] = json.loads(job.spec.request)
    return {**with_labels(request, job.labels), "jobId": job.job_id, **_outputs(job)}


def _outputs(job: Job) -> dict[str, Any]:
    status = job.status
    position = status.queue_position
    found = {
        "state": STATE[status.state],
        "createTime": rfc3339(status.create_time),
        "startTime": rfc3339(status.start_time),
        "endTime": rfc3339(status.end_time),
        "errorMessage": _message(job),
        "jobPosition": None if position is None else str(position),
        "etag": base64.b64encode(job.etag).decode("ascii") or None,
        "trainingOutput": dict(TRAINING_OUTPUT) if status.start_time else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _message(job: Job) -> str | None:
    """Why the job failed or was cancelled; while it waits, why it does."""
    error = ending(job.status)
    if error:
        return error.message
    is_waiting = job.status.state is JobState.QUEUED and job.explanation
    return waiting(job.explanation) if is_waiting and job.explanation else None
