"""Training pipelines with a custom task: a document around a real job (vertex-sdk.md 4.4).

The pipeline is what its child is; what it adds is the caller's document, echoed as it was sent.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from trainshed.model.filters import AllOf
from trainshed.model.job import JobSpec
from trainshed.model.refusals import Code, Refusal
from trainshed.model.status import Job
from trainshed.service.jobs import ANY_LOCATION, JobService
from trainshed.service.operations import deleted
from trainshed.service.paging import next_page, page_of
from trainshed.service.refusing import not_found
from trainshed.service.resource_names import job_name, parent
from trainshed.service.submission import SubmitRules, admit
from trainshed.store.base import StoreBase
from trainshed.store.records import JobQuery, JobRecord, Kind, NewJob, Operation, Pipeline
from trainshed.wire.aiplatform_v1 import parse
from trainshed.wire.aiplatform_v1.listing import pipelines_filter
from trainshed.wire.parsed import compact

COLLECTION: Final = "trainingPipelines"

#: What Google calls the job of a pipeline.
CHILD_NAME: Final = "{pipeline}-custom-job"
_DISPLAY_NAME_MAX = 128

NO_REGISTRY: Final = (
    "modelToUpload is not honoured: there is no model registry. The model is what the program "
    "writes to {place}."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineView:
    """A pipeline as a job, for ``render.training_pipeline``, and the full name of its child."""

    job: Job
    backing_custom_job: str


class PipelineService:
    """Training pipelines.  All refusals are ``Refusal``; thread-safe."""

    def __init__(
        self,
        store: StoreBase,
        rules: SubmitRules,
        jobs: JobService,
        wake: Callable[[], None],
        now: Callable[[], datetime] = lambda: datetime.now(tz=UTC),
    ) -> None:
        """``jobs`` places and cancels the children."""
        self._store = store
        self._rules = rules
        self._jobs = jobs
        self._wake = wake
        self._now = now

    def create(
        self,
        project: str,
        location: str,
        document: Any,
        *,
        creator: str,
        retry_key: str | None = None,
    ) -> PipelineView:
        """Store a pipeline and its child in one write; a repeated call gets the first one's."""
        admitted = admit(document, location, self._rules, parse.training_pipeline)
        self._jobs.check_place(project, admitted)
        envelope: Mapping[str, Any] = json.loads(admitted.spec.envelope)
        new = NewJob(
            kind=Kind.CUSTOM_JOB,
            project=project,
            location=location,
            spec=_child(admitted.spec),
            expanded=_child(admitted.expanded),
            demand=admitted.demand,
            creator=creator,
            notes=(*admitted.notes, *_model_notes(envelope, admitted.spec)),
            told=admitted.told,
            retry_key=retry_key,
            running_s_max=admitted.limits.running_s_max,
            waiting_s_max=admitted.limits.waiting_s_max,
        )
        definition = str(envelope.get("trainingTaskDefinition", ""))
        pipeline = self._store.add_pipeline(new, admitted.spec.envelope, definition)
        self._wake()
        return _view(*self._find(project, location, str(pipeline.uid)))

    def get(self, project: str, location: str, pipeline_id: str) -> PipelineView:
        """The pipeline of a name."""
        return _view(*self._find(project, location, pipeline_id))

    def list(
        self,
        project: str,
        location: str,
        *,
        filter_text: str = "",
        page_size: int = 0,
        page_token: str = "",
    ) -> tuple[Sequence[PipelineView], str]:
        """One page, newest first, and the token of the next; empty where there is none."""
        found = pipelines_filter(filter_text) if filter_text else AllOf()
        scope = (COLLECTION, project, location, filter_text)
        page = page_of(Kind.CUSTOM_JOB, scope, page_size, page_token, self._now())
        query = JobQuery(
            project=project,
            kind=Kind.CUSTOM_JOB,
            location=None if location == ANY_LOCATION else location,
            filter=found,
            page_size=page.size + 1,
            after=page.after,
        )
        rows = self._store.list_pipelines(query)
        keys = [(pipeline.create_time, pipeline.uid) for pipeline, _ in rows]
        token = next_page(page, keys, self._now())
        return [_view(*row) for row in rows[: page.size]], token

    def cancel(self, project: str, location: str, pipeline_id: str, *, by: str = "") -> None:
        """Ask for the child's end.  A pipeline that is over stays as it is."""
        _, child = self._find(project, location, pipeline_id)
        if not child.job.status.state.is_final:
            self._jobs.cancel(Kind.CUSTOM_JOB, project, location, child.job.job_id, by=by)

    def delete(self, project: str, location: str, pipeline_id: str) -> Operation:
        """Forget a pipeline that is over; its child stays."""
        pipeline, child = self._find(project, location, pipeline_id)
        if not child.job.status.state.is_final:
            raise Refusal(
                Code.FAILED_PRECONDITION,
                f"{_name(pipeline)} is {child.job.status.state.value} and cannot be deleted; "
                "cancel it first and wait for its end",
            )
        self._store.delete_pipeline(pipeline.uid)
        return deleted(self._store, project, location, self._now())

    def _find(self, project: str, location: str, pipeline_id: str) -> tuple[Pipeline, JobRecord]:
        uid = int(pipeline_id) if _NUMBER.fullmatch(pipeline_id) else 0
        found = self._store.pipeline(project, uid) if 0 < uid < _UID_LIMIT else None
        if found is None or found[0].location != location:
            raise not_found(f"{parent(project, location)}/{COLLECTION}/{pipeline_id}")
        return found


_NUMBER = re.compile(r"[1-9][0-9]{0,18}")
_UID_LIMIT = 1 << 63


def _child(spec: JobSpec) -> JobSpec:
    """The spec of the job: the pipeline's inputs, in a document of its own."""
    name = CHILD_NAME.format(pipeline=spec.display_name)[:_DISPLAY_NAME_MAX]
    around: Mapping[str, Any] = json.loads(spec.envelope)
    kept = {key: around[key] for key in ("labels", "encryptionSpec") if key in around}
    return replace(spec, display_name=name, envelope=compact({"displayName": name, **kept}))


def _model_notes(envelope: Mapping[str, Any], spec: JobSpec) -> tuple[str, ...]:
    if not envelope.get("modelToUpload"):
        return ()
    base = spec.base_output_dir
    place = f"{base.rstrip('/')}/model/ (AIP_MODEL_DIR)" if base else "a place of its own choice"
    return (NO_REGISTRY.format(place=place),)


def _name(pipeline: Pipeline) -> str:
    return f"{parent(pipeline.project, pipeline.location)}/{COLLECTION}/{pipeline.uid}"


def _view(pipeline: Pipeline, child: JobRecord) -> PipelineView:
    """The child's observations under the pipeline's name and document."""
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
        backing_custom_job=job_name(
            child.kind, child.job.project, child.job.location, child.job.job_id
        ),
    )
