"""Renders jobs as resources of ``aiplatform/v1``: the caller's document with the job's state.

The CustomJobSpec of the document comes from ``request`` of the JobSpec, all else from ``envelope``.
A deletion returns a finished operation: clients require ``done`` together with a ``response``
(docs/sources/vertex.md 4.2).

Also makes the specs of a pipeline's job and of a trial's job from the caller's document.
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
    """Render a CustomJob for clients."""
    return {
        **_envelope(job),
        "jobSpec": json.loads(job.spec.request),
        **_outputs(job, CUSTOM_JOBS, "JOB_STATE"),
    }


def tuning_job(job: Job, trials: Sequence[TrialView] = ()) -> dict[str, Any]:
    """Render a HyperparameterTuningJob for clients; lists have no ``trials``, as at Google."""
    resource = {
        **_envelope(job),
        "trialJobSpec": json.loads(job.spec.request),
        **_outputs(job, TUNING_JOBS, "JOB_STATE"),
    }
    return {**resource, "trials": [trial_json(view) for view in trials]} if trials else resource


def training_pipeline(
    job: Job, *, backing_custom_job: str | None = None, model: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Render a TrainingPipeline for clients; ``model`` has the known fields of its model.

    ``trainingTaskInputs`` have the key case of the caller's document.
    ``backing_custom_job`` is the full name of its CustomJob (docs/sources/vertex.md 4.4).
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
    """Return labels with a waiting job's reason and queue position, for which it has no fields."""
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
    """Render the Operation of a resource that was deleted at ``time``."""
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


#: The display name of a pipeline's job, as at Google.
CHILD_NAME: Final = "{pipeline}-custom-job"
#: The labels of a trial's job that name its study and its trial.
STUDY_LABEL: Final = "trainshed-study"
TRIAL_LABEL: Final = "trainshed-trial"

_DISPLAY_NAME_MAX: Final = 128
_LABELS_MAX: Final = 64


def task_definition(pipeline: JobSpec) -> str:
    """Return the ``trainingTaskDefinition`` of a pipeline; empty if it has none."""
    return str(_decode_envelope(pipeline).get("trainingTaskDefinition", ""))


def job_of_pipeline(spec: JobSpec) -> JobSpec:
    """Return the spec of a pipeline's job: the pipeline's inputs with a new envelope."""
    name = CHILD_NAME.format(pipeline=spec.display_name)[:_DISPLAY_NAME_MAX]
    return replace(spec, display_name=name, envelope=_new_envelope(spec, name, "labels"))


def job_of_trial(spec: JobSpec, study_id: str, number: str) -> JobSpec:
    """Return the spec of a trial's job, with names and labels derived from its study."""
    suffix = f"-trial-{number}"
    name = spec.display_name[: _DISPLAY_NAME_MAX - len(suffix)] + suffix
    trial_labels = {STUDY_LABEL: study_id, TRIAL_LABEL: number}
    fits = len(spec.labels) + len(trial_labels) <= _LABELS_MAX
    labels = {**spec.labels, **(trial_labels if fits else {})}
    return replace(
        spec,
        display_name=name,
        labels=labels,
        request=_with_trial_folder(spec.request, number),
        envelope=_new_envelope(spec, name, labels=labels),
    )


def _new_envelope(spec: JobSpec, name: str, *keys: str, **fields: Any) -> str:
    envelope = _decode_envelope(spec)
    inherited = {key: envelope[key] for key in (*keys, "encryptionSpec") if key in envelope}
    return compact({"displayName": name, **fields, **inherited})


def _with_trial_folder(request: str, number: str) -> str:
    """Set the output directory of a trial's job in its request (docs/sources/vertex.md 8).

    It is for clients only: ``launch`` decides that results go to the trial's folder.
    """
    document: dict[str, Any] = json.loads(request)
    base = document.get("baseOutputDirectory", {}).get("outputUriPrefix")
    if not base:
        return request
    return compact(
        {**document, "baseOutputDirectory": {"outputUriPrefix": under(base, number, "")}}
    )


def _decode_envelope(spec: JobSpec) -> Mapping[str, Any]:
    envelope: Mapping[str, Any] = json.loads(spec.envelope)
    return envelope
