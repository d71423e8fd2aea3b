"""Jobs of the model as resources of ``aiplatform/v1``: the caller's document and what was observed.

The document comes back whole: its CustomJobSpec from the spec's ``request``, all around it from the
``envelope``.  What deletes a resource is answered with an operation, which is over by then: the
clients insist on ``done`` together with a ``response`` (contracts/vertex-sdk.md 4.2).
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from trainshed.model.resource_names import CUSTOM_JOBS, PIPELINES, TUNING_JOBS, resource_name
from trainshed.model.status import Job, JobState
from trainshed.model.trials import TrialView
from trainshed.wire.aiplatform_v1.trials import trial_json
from trainshed.wire.aiplatform_v1.words import STATE
from trainshed.wire.status import ending, with_labels
from trainshed.wire.times import rfc3339

#: Labels that the service adds while a job waits.
WAITING_LABEL: Final = "trainshed-waiting"
POSITION_LABEL: Final = "trainshed-queue-position"


def custom_job(job: Job) -> dict[str, Any]:
    """The CustomJob as its clients read it."""
    return {
        **_envelope(job),
        "jobSpec": json.loads(job.spec.request),
        **_outputs(job, CUSTOM_JOBS, "JOB_STATE"),
    }


def tuning_job(job: Job, trials: Sequence[TrialView] = ()) -> dict[str, Any]:
    """The HyperparameterTuningJob as its clients read it; Google leaves ``trials`` out of lists."""
    found = {
        **_envelope(job),
        "trialJobSpec": json.loads(job.spec.request),
        **_outputs(job, TUNING_JOBS, "JOB_STATE"),
    }
    return {**found, "trials": [trial_json(view) for view in trials]} if trials else found


def training_pipeline(job: Job, *, backing_custom_job: str | None = None) -> dict[str, Any]:
    """The TrainingPipeline as its clients read it.

    ``trainingTaskInputs`` come back in the caller's own key case.  ``backing_custom_job`` is the
    full name of the CustomJob that does the work (contracts/vertex-sdk.md 4.4).
    """
    found = {**_envelope(job), **_outputs(job, PIPELINES, "PIPELINE_STATE")}
    if backing_custom_job:
        found["trainingTaskMetadata"] = {"backingCustomJob": backing_custom_job}
    return found


def _envelope(job: Job) -> dict[str, Any]:
    found = with_labels(json.loads(job.spec.envelope), job.labels)
    added = _waiting_labels(job)
    return {**found, "labels": {**found.get("labels", {}), **added}} if added else found


def _waiting_labels(job: Job) -> dict[str, str]:
    """Why a job waits, and where in the queue: this dialect has no better place for it."""
    if job.status.state is not JobState.QUEUED:
        return {}
    reason, position = job.explanation and job.explanation.reason, job.status.queue_position
    found = {
        WAITING_LABEL: reason.value.lower() if reason else None,
        POSITION_LABEL: None if position is None else str(position),
    }
    return {name: value for name, value in found.items() if value is not None}


def _outputs(job: Job, collection: str, prefix: str) -> dict[str, Any]:
    status = job.status
    error = ending(status)
    found = {
        "name": resource_name(collection, job.project, job.location, job.job_id),
        "displayName": job.spec.display_name or None,
        "state": f"{prefix}_{STATE[status.state]}",
        "createTime": rfc3339(status.create_time),
        "startTime": rfc3339(status.start_time),
        "endTime": rfc3339(status.end_time),
        "updateTime": rfc3339(status.update_time),
        "error": {"code": error.code, "message": error.message} if error else None,
    }
    return {name: value for name, value in found.items() if value is not None}


EMPTY: Final = "type.googleapis.com/google.protobuf.Empty"
DELETE_METADATA: Final = "type.googleapis.com/google.cloud.aiplatform.v1.DeleteOperationMetadata"


def deletion(name: str, time: datetime) -> dict[str, Any]:
    """The Operation of a resource that was deleted at a time."""
    stamp = rfc3339(time)
    return {
        "name": name,
        "metadata": {
            "@type": DELETE_METADATA,
            "genericMetadata": {"createTime": stamp, "updateTime": stamp},
        },
        "done": True,
        "response": {"@type": EMPTY},
    }
