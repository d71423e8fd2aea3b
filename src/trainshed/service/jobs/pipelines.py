"""Training pipelines with a custom task: a document around a job, its child.

The state is the child's; the pipeline adds the caller's document, which is echoed unchanged
(docs/sources/vertex.md 4.4).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from trainshed.model.resource_names import (
    MODELS,
    PIPELINES,
    JobId,
    JobUid,
    ProjectId,
    number_of,
    resource_name,
)
from trainshed.model.status import Job, JobState
from trainshed.service.jobs.job_service import JobService, check_over, deleted
from trainshed.service.jobs.models import new_model
from trainshed.service.jobs.paging import ListCall, one_page
from trainshed.service.jobs.refusing import Merged, not_found
from trainshed.service.jobs.submission import (
    LOCATION,
    JudgedSubmission,
    SubmitRules,
    admit,
    check_object,
    judge_submission,
)
from trainshed.service.starts.bucket_uris import buckets_of_project
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind, JobRecord
from trainshed.store.records.models import Operation, Pipeline
from trainshed.wire.aiplatform_v1 import parse
from trainshed.wire.aiplatform_v1.models import ModelDraft, model_of_pipeline
from trainshed.wire.aiplatform_v1.render import job_of_pipeline, task_definition
from trainshed.wire.aiplatform_v1.words import pipelines_filter

ITS_MODEL: Final = (
    "modelToUpload: when the job has succeeded, its model is what the program wrote to {place}/ "
    "(AIP_MODEL_DIR). This server does not serve models."
)
NO_FOLDER: Final = (
    "modelToUpload: the model will name no folder, because the job has no baseOutputDirectory."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineView:
    """A pipeline as a job, for ``render.training_pipeline``, and the full name of its child."""

    job: Job
    backing_custom_job: str
    model: Mapping[str, Any]
    """The fields that a registered model adds to ``modelToUpload``; else empty."""


@dataclass(frozen=True, slots=True)
class PipelineService:
    """Training pipelines.  Methods raise Refusal.  Thread-safe."""

    store: Store
    rules: SubmitRules
    jobs: JobService
    """Checks and cancels the children."""
    wake: Callable[[], None]
    now: Callable[[], datetime] = lambda: datetime.now(tz=UTC)

    def create(
        self,
        project: ProjectId,
        location: str,
        document: Any,
        *,
        creator: str,
        retry_key: str | None = None,
    ) -> PipelineView:
        """Store a pipeline and its child in one write; a repeated call returns the same one."""
        merged = Merged(content=check_object(document), region=location, region_word=LOCATION)
        admitted = admit(self.judge(project, merged), self.rules)
        self.jobs.check_place(project, admitted)
        draft = model_of_pipeline(admitted.spec)
        model = new_model(self.store, project, location, draft) if draft else None
        new = replace(
            admitted.as_new(JobKind.CUSTOM_JOB, project, location, creator, retry_key),
            spec=job_of_pipeline(admitted.spec),
            expanded=job_of_pipeline(admitted.expanded),
            notes=(*admitted.notes, *_model_notes(draft)),
        )
        definition = task_definition(admitted.spec)
        pipeline = self.store.add_pipeline(new, admitted.spec.envelope, definition, model)
        self.wake()
        self.rules.noted(JobUid(pipeline.child_uid), project, admitted.expanded)
        return _view(*self._find(project, location, JobId(str(pipeline.uid))))

    def judge(self, project: ProjectId, merged: Merged) -> JudgedSubmission:
        """Judge the document of a pipeline as ``create`` does; store nothing, raise nothing."""
        has_bucket = buckets_of_project(self.store, project)
        return judge_submission(merged, self.rules, parse.training_pipeline, has_bucket)

    def get(self, project: ProjectId, location: str, pipeline_id: JobId) -> PipelineView:
        """Return a pipeline by name."""
        return _view(*self._find(project, location, pipeline_id))

    def list(self, call: ListCall) -> tuple[Sequence[PipelineView], str]:
        """Return one page, newest first, and the token of the next page or an empty text."""
        list_rows = self.store.list_pipelines
        rows, token = one_page(call, pipelines_filter, list_rows, _key_of, self.now())
        return [_view(*row) for row in rows], token

    def cancel(
        self, project: ProjectId, location: str, pipeline_id: JobId, *, by: str = ""
    ) -> None:
        """Cancel the child; does nothing for a pipeline that has ended."""
        _, child = self._find(project, location, pipeline_id)
        if not child.job.status.state.is_final:
            self.jobs.cancel(JobKind.CUSTOM_JOB, project, location, JobId(child.job.job_id), by=by)

    def delete(self, project: ProjectId, location: str, pipeline_id: JobId) -> Operation:
        """Delete a pipeline that has ended; its child stays."""
        pipeline, child = self._find(project, location, pipeline_id)
        check_over(resource_name(PIPELINES, project, location, pipeline_id), child)
        self.store.delete_pipeline(pipeline.uid)
        return deleted(self.store, project, location, self.now())

    def _find(
        self, project: ProjectId, location: str, pipeline_id: JobId
    ) -> tuple[Pipeline, JobRecord]:
        uid = number_of(pipeline_id)
        pair = self.store.pipeline(project, uid) if uid else None
        if pair is None or pair[0].location != location:
            raise not_found(resource_name(PIPELINES, project, location, pipeline_id))
        return pair


def _model_notes(draft: ModelDraft | None) -> tuple[str, ...]:
    if draft is None:
        return ()
    place = draft.artifact_uri
    return (ITS_MODEL.format(place=place) if place else NO_FOLDER,)


def _key_of(row: tuple[Pipeline, JobRecord]) -> tuple[datetime | None, int]:
    return row[0].create_time, row[0].uid


def _view(pipeline: Pipeline, child: JobRecord) -> PipelineView:
    """Return the child's state under the pipeline's name and document."""
    spec = replace(child.job.spec, display_name=pipeline.display_name, envelope=pipeline.document)
    status = replace(child.job.status, create_time=pipeline.create_time)
    return PipelineView(
        job=replace(
            child.job,
            job_id=str(pipeline.uid),
            spec=spec,
            status=status,
            labels=pipeline.labels or None,
        ),
        model=_model_of(pipeline, child),
        backing_custom_job=resource_name(
            child.kind.value, child.job.project, child.job.location, child.job.job_id
        ),
    )


def _model_of(pipeline: Pipeline, child: JobRecord) -> Mapping[str, Any]:
    if not pipeline.model_id or child.job.status.state is not JobState.SUCCEEDED:
        return {}
    name = resource_name(MODELS, pipeline.project, pipeline.location, pipeline.model_id)
    return {"name": name, "versionId": str(pipeline.model_version)}
