"""Renders a stored job in the words of its own API, and as a text to submit again."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainshed.model.explanation import Change
from trainshed.model.resource_names import ProjectId
from trainshed.service.jobs.job_lookup import JobMatch, find_job
from trainshed.service.jobs.job_service import JobService
from trainshed.service.jobs.pipelines import PipelineService
from trainshed.service.jobs.refusing import Merged
from trainshed.service.jobs.submission import LOCATION, JudgedSubmission
from trainshed.service.texts.admitting_changes import ChangedDocument, apply_change
from trainshed.service.texts.answers import ClusterMachines, StoredDocument
from trainshed.store.listed_jobs import ListedKind
from trainshed.store.opening import Store
from trainshed.store.records.jobs import ML_KINDS, JobKind, JobRecord
from trainshed.wire.status import with_labels
from trainshed.wire.yaml_text import yaml_of

_LISTED: Final[Mapping[JobKind, ListedKind]] = {
    JobKind.ML_JOB: ListedKind.AI_PLATFORM_JOB,
    JobKind.CUSTOM_JOB: ListedKind.CUSTOM_JOB,
    JobKind.TUNING_JOB: ListedKind.TUNING_JOB,
    JobKind.TRIAL: ListedKind.TRIAL,
}
#: How many ids are tried for a copy of an AI Platform job.
_IDS_MAX: Final = 50
_JOB_ID_LENGTH_MAX: Final = 128
_NUMBERED: Final = re.compile(r"(.*?)_?(\d{1,9})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StoredTexts:
    """Stored jobs as texts.  Methods raise Refusal.  Thread-safe."""

    store: Store
    jobs: JobService
    pipelines: PipelineService

    def document(self, project: ProjectId, job_id: str) -> StoredDocument:
        """Return a stored job as a document and as texts."""
        match = find_job(self.store, project, job_id)
        record = match.record
        document = document_of(match)
        copy = self._with_new_id(project, match, document)
        change = record.job.explanation.change if record.job.explanation else None
        changed = self._change(project, match, copy, change) if change else None
        is_text = changed is not None and changed.location is None
        return StoredDocument(
            kind=ListedKind.TRAINING_PIPELINE if match.pipeline else _LISTED[record.kind],
            location=None if record.kind in ML_KINDS else record.job.location,
            document=document,
            text=yaml_of(copy),
            changed_text=yaml_of(changed.merged.content) if changed and is_text else None,
            changed_location=changed.location if changed else None,
            change_sentence=change.text if change and changed else None,
            cluster=self._cluster(record),
        )

    def _with_new_id(
        self, project: ProjectId, match: JobMatch, document: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the document with a free id, if ids of its kind are the caller's."""
        if match.record.kind not in ML_KINDS:
            return document
        job_id = str(document["jobId"]).replace("/trials/", "_trial_")
        return {**document, "jobId": free_job_id(self.jobs, project, job_id)}

    def _change(
        self, project: ProjectId, match: JobMatch, copy: Mapping[str, Any], change: Change
    ) -> ChangedDocument | None:
        record = match.record
        if record.kind is JobKind.TRIAL or not record.job.status.state.waits:
            return None

        def judge(merged: Merged) -> JudgedSubmission:
            if match.pipeline:
                return self.pipelines.judge(project, merged)
            return self.jobs.judge(record.kind, project, merged)

        region = None if record.kind in ML_KINDS else record.job.location
        merged = Merged(content=dict(copy), region=region, region_word=LOCATION)
        return apply_change(change, merged, judge(merged), judge)

    def _cluster(self, record: JobRecord) -> Sequence[ClusterMachines]:
        """Return the machines of the expanded spec, with the sizes that were admitted."""
        sizes = {group.role: group.each for group in self.store.demand(record.uid).groups}
        return [
            ClusterMachines(
                role=group.role,
                count=group.count,
                machine_type=group.machine_type,
                vcpus=(size.vcpus or None) if (size := sizes.get(group.role)) else None,
                memory_gb=(size.memory_gb or None) if size else None,
                accelerator_type=group.accelerator.type if group.accelerator else None,
                accelerator_count=(group.accelerator.count or 0) if group.accelerator else 0,
            )
            for group in self.store.expanded(record.uid).groups
        ]


def document_of(match: JobMatch) -> dict[str, Any]:
    """Return the document of a job as it was submitted, with its current labels."""
    record, pipeline = match.record, match.pipeline
    if pipeline:
        return with_labels(json.loads(pipeline.document), pipeline.labels or None)
    job = record.job
    request = json.loads(job.spec.request)
    if record.kind in ML_KINDS:
        return {**with_labels(request, job.labels), "jobId": job.job_id}
    envelope = with_labels(json.loads(job.spec.envelope), job.labels)
    name = "trialJobSpec" if record.kind is JobKind.TUNING_JOB else "jobSpec"
    return {"displayName": job.spec.display_name, **envelope, name: request}


def free_job_id(jobs: JobService, project: ProjectId, job_id: str) -> str:
    """Return the next id after ``job_id`` that no AI Platform job of the project has."""
    for _ in range(_IDS_MAX):
        job_id = next_id(job_id)
        if not jobs.exists(project, job_id):
            break
    return job_id


def next_id(job_id: str) -> str:
    """Return the next id of a row of copies: ``census_2`` for ``census``, then ``census_3``."""
    match = _NUMBERED.fullmatch(job_id)
    base, number = (match[1], int(match[2])) if match and match[1] else (job_id, 1)
    suffix = f"_{number + 1}"
    return base[: _JOB_ID_LENGTH_MAX - len(suffix)] + suffix
