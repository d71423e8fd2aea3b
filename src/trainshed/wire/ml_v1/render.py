"""Renders a job as a Job of ``ml/v1``: the caller's document with the job's state.

Clients depend on more than the schema: ``etag`` is padded base64, or gcloud crashes;
``endTime`` is set with every final state, or log streaming never ends (docs/sources/gcloud.md 2 and
10.3).
"""

import base64
import json
from collections.abc import Sequence
from typing import Any, Final

from trainshed.model.status import Job
from trainshed.model.trials import TrialView
from trainshed.wire.ml_v1.trials import study_output
from trainshed.wire.status import STATE, ending, waiting, with_labels
from trainshed.wire.times import rfc3339

#: The ML units that ``describe --summarize`` prints; always 0, because the server bills nothing.
TRAINING_OUTPUT: Final = {"consumedMLUnits": 0.0}


def job(job: Job, trials: Sequence[TrialView] = ()) -> dict[str, Any]:
    """Render a Job for clients; 64-bit numbers are strings, times are RFC 3339 with Z."""
    request: dict[str, Any] = json.loads(job.spec.request)
    outputs = _outputs(job, trials)
    return {**with_labels(request, job.labels), "jobId": job.job_id, **outputs}


def _outputs(job: Job, trials: Sequence[TrialView]) -> dict[str, Any]:
    status = job.status
    position = status.queue_position
    outputs = {
        "state": STATE[status.state],
        "createTime": rfc3339(status.create_time),
        "startTime": rfc3339(status.start_time),
        "endTime": rfc3339(status.end_time),
        "errorMessage": _message(job),
        "jobPosition": None if position is None else str(position),
        "etag": base64.b64encode(job.etag).decode("ascii") or None,
        "trainingOutput": _training_output(job, trials) or None,
    }
    return {name: value for name, value in outputs.items() if value is not None}


def _training_output(job: Job, trials: Sequence[TrialView]) -> dict[str, Any]:
    """Return the training output; empty before the job runs or has trials."""
    if not (job.status.start_time or trials):
        return {}
    study = job.spec.study
    of_study = study_output(study, trials) if study and job.spec.is_study else {}
    return {**TRAINING_OUTPUT, **of_study}


def _message(job: Job) -> str | None:
    """Return why the job failed, was cancelled or waits; None for any other job."""
    error = ending(job.status)
    if error:
        return error.message
    return waiting(job.explanation) if job.status.state.waits and job.explanation else None
