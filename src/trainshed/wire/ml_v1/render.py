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
from trainshed.wire.times import rfc3339

#: This dialect's word for every state (contracts/gcloud.md 10.3).
STATE: Final[Mapping[JobState, str]] = {
    JobState.QUEUED: "QUEUED",
    JobState.PREPARING: "PREPARING",
    JobState.RUNNING: "RUNNING",
    JobState.CANCELLING: "CANCELLING",
    JobState.SUCCEEDED: "SUCCEEDED",
    JobState.FAILED: "FAILED",
    JobState.CANCELLED: "CANCELLED",
}


def job(job: Job) -> dict[str, Any]:
    """The Job as its clients read it; 64-bit numbers are texts, times are RFC 3339 with Z."""
    request: dict[str, Any] = json.loads(job.spec.request)
    return {**request, "jobId": job.job_id, **_outputs(job)}


def _outputs(job: Job) -> dict[str, Any]:
    status = job.status
    position = status.queue_position
    found = {
        "state": STATE[status.state],
        "createTime": rfc3339(status.create_time),
        "startTime": rfc3339(status.start_time),
        "endTime": rfc3339(status.end_time),
        "errorMessage": status.error.message if status.error else None,
        "jobPosition": None if position is None else str(position),
        "etag": base64.b64encode(job.etag).decode("ascii") or None,
    }
    return {name: value for name, value in found.items() if value is not None}
