"""Renders jobs as resources of ``aiplatform/v1``: the caller's document with the job's state.

The document is returned whole: its CustomJobSpec from the spec's ``request``, the rest from the
``envelope``.  A deletion returns a finished operation: clients require ``done`` together with a
``response`` (docs/sources/vertex.md 4.2).

The service also makes documents of a caller's: of a pipeline's job, and of a trial's job.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from trainshed.launch.directories import under
from trainshed.model.job import JobSpec
from trainshed.model.resource_names import CUSTOM_JOBS, PIPELINES, TUNING_JOBS, resource_name
from trainshed.model.status import Job
from trainshed.model.trials import TrialView
from trainshed.wire.aiplatform_v1.trials import trial_json
from trainshed.wire.aiplatform_v1.words import STATE
from trainshed.wire.parsed import compact
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
    resource = {
        **_envelope(job),
        "trialJobSpec": json.loads(job.spec.request),
        **_outputs(job, TUNING_JOBS, "JOB_STATE"),
    }
    return {**resource, "trials": [trial_json(view) for view in trials]} if trials else resource


def training_pipeline(
    job: Job, *, backing_custom_job: str | None = None, model: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The TrainingPipeline as its clients read it; ``model`` has the known fields of its model.

    ``trainingTaskInputs`` come back in the caller's own key case.  ``backing_custom_job`` is the
    full name of the CustomJob that does the work (docs/sources/vertex.md 4.4).
    """
    resource = {**_envelope(job), **_outputs(job, PIPELINES, "PIPELINE_STATE")}
    if backing_custom_job:
        resource["trainingTaskMetadata"] = {"backingCustomJob": backing_custom_job}
    if model:
        resource["modelToUpload"] = {**resource.get("modelToUpload", {}), **model}
    return resource


def _envelope(job: Job) -> dict[str, Any]:
    envelope = with_labels(json.loads(job.spec.envelope), job.labels)
    added = _waiting_labels(job)
    return {**envelope, "labels": {**envelope.get("labels", {}), **added}} if added else envelope


def _waiting_labels(job: Job) -> dict[str, str]:
    """Return labels with a waiting job's reason and queue position: the dialect has no field."""
    if not job.status.state.waits:
        return {}
    reason, position = job.explanation and job.explanation.reason, job.status.queue_position
    labels = {
        WAITING_LABEL: reason.value.lower() if reason else None,
        POSITION_LABEL: None if position is None else str(position),
    }
    return {name: value for name, value in labels.items() if value is not None}


def _outputs(job: Job, collection: str, prefix: str) -> dict[str, Any]:
    status = job.status
    error = ending(status)
    outputs = {
        "name": resource_name(collection, job.project, job.location, job.job_id),
        "displayName": job.spec.display_name or None,
        "state": f"{prefix}_{STATE[status.state]}",
        "createTime": rfc3339(status.create_time),
        "startTime": rfc3339(status.start_time),
        "endTime": rfc3339(status.end_time),
        "updateTime": rfc3339(status.update_time),
        "error": {"code": error.code, "message": error.message} if error else None,
    }
    return {name: value for name, value in outputs.items() if value is not None}


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


#: The display name that Google gives the job of a pipeline.
CHILD_NAME: Final = "{pipeline}-custom-job"
#: The label by which a client finds the study of a trial's job.
STUDY_LABEL: Final = "trainshed-study"
TRIAL_LABEL: Final = "trainshed-trial"

_DISPLAY_NAME_MAX: Final = 128
_LABELS_MAX: Final = 64


def task_definition(pipeline: JobSpec) -> str:
    """The ``trainingTaskDefinition`` of a pipeline."""
    return str(_around(pipeline).get("trainingTaskDefinition", ""))


def job_of_pipeline(spec: JobSpec) -> JobSpec:
    """The spec of the job: the pipeline's inputs, in a document of its own."""
    name = CHILD_NAME.format(pipeline=spec.display_name)[:_DISPLAY_NAME_MAX]
    return replace(spec, display_name=name, envelope=_new_envelope(spec, name, "labels"))


def job_of_trial(spec: JobSpec, study_id: str, number: str) -> JobSpec:
    """The spec of a trial's job: named and labelled after its study."""
    suffix = f"-trial-{number}"
    name = spec.display_name[: _DISPLAY_NAME_MAX - len(suffix)] + suffix
    own = {STUDY_LABEL: study_id, TRIAL_LABEL: number}
    labels = {**spec.labels, **(own if len(spec.labels) + len(own) <= _LABELS_MAX else {})}
    return replace(
        spec,
        display_name=name,
        labels=labels,
        request=_in_own_folder(spec.request, number),
        envelope=_new_envelope(spec, name, labels=labels),
    )


def _new_envelope(spec: JobSpec, name: str, *keys: str, **fields: Any) -> str:
    around = _around(spec)
    inherited = {key: around[key] for key in (*keys, "encryptionSpec") if key in around}
    return compact({"displayName": name, **fields, **inherited})


def _in_own_folder(request: str, number: str) -> str:
    """Set the output directory that the trial's job shows (docs/sources/vertex.md 8).

    ``launch`` decides where results go: into the trial's folder below the study's.
    """
    document: dict[str, Any] = json.loads(request)
    base = document.get("baseOutputDirectory", {}).get("outputUriPrefix")
    if not base:
        return request
    return compact(
        {**document, "baseOutputDirectory": {"outputUriPrefix": under(base, number, "")}}
    )


def _around(spec: JobSpec) -> Mapping[str, Any]:
    envelope: Mapping[str, Any] = json.loads(spec.envelope)
    return envelope
