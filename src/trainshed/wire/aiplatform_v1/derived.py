"""Documents that the service makes of a caller's: of a pipeline's job, and of a trial's job."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from trainshed.launch.directories import under
from trainshed.model.job import JobSpec
from trainshed.wire.parsed import compact

#: What Google calls the job of a pipeline.
CHILD_NAME: Final = "{pipeline}-custom-job"
#: Whoever looks for a trial's job by itself finds its study.
STUDY_LABEL: Final = "trainshed-study"
TRIAL_LABEL: Final = "trainshed-trial"

_DISPLAY_NAME_MAX: Final = 128
_LABELS_MAX: Final = 64


def task_definition(pipeline: JobSpec) -> str:
    """The ``trainingTaskDefinition`` of a pipeline."""
    return str(_around(pipeline).get("trainingTaskDefinition", ""))


def wants_model(pipeline: JobSpec) -> bool:
    """Whether a pipeline asks for its model to be registered."""
    return bool(_around(pipeline).get("modelToUpload"))


def job_of_pipeline(spec: JobSpec) -> JobSpec:
    """The spec of the job: the pipeline's inputs, in a document of its own."""
    name = CHILD_NAME.format(pipeline=spec.display_name)[:_DISPLAY_NAME_MAX]
    return replace(spec, display_name=name, envelope=_envelope(spec, name, "labels"))


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
        envelope=_envelope(spec, name, labels=labels),
    )


def _envelope(spec: JobSpec, name: str, *kept: str, **given: Any) -> str:
    around = _around(spec)
    found = {key: around[key] for key in (*kept, "encryptionSpec") if key in around}
    return compact({"displayName": name, **given, **found})


def _in_own_folder(request: str, number: str) -> str:
    """What the trial's job shows as its output directory (contracts/vertex-sdk.md 8).

    Where results go is ``launch``'s business: it puts the trial's folder under the study's.
    """
    document: dict[str, Any] = json.loads(request)
    base = document.get("baseOutputDirectory", {}).get("outputUriPrefix")
    if not base:
        return request
    return compact(
        {**document, "baseOutputDirectory": {"outputUriPrefix": under(base, number, "")}}
    )


def _around(spec: JobSpec) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(spec.envelope)
    return found
