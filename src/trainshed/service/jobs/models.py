"""Models: names for folders of artifacts, registered by pipelines or uploaded by clients.

A pipeline's version exists once its job has succeeded.  Nothing is copied, and a deletion removes
the name only: the artifacts stay in their bucket, as at Google.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from trainshed.model.faults import UsageFault, Violation
from trainshed.model.filters import AllOf
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import MODELS, ProjectId, resource_name
from trainshed.service.jobs.job_service import deleted, new_operation
from trainshed.service.jobs.paging import ListCall, one_page
from trainshed.service.jobs.refusing import invalid, not_found
from trainshed.service.starts.bucket_uris import NO_BUCKET, buckets_of_project
from trainshed.storage.buckets import split
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind, JobQuery
from trainshed.store.records.models import NewModel, Operation, StoredModel
from trainshed.wire.aiplatform_v1.models import (
    DOCUMENT_BYTES_MAX,
    ModelDraft,
    aliases_of,
    upload_request,
)
from trainshed.wire.aiplatform_v1.words import models_filter

#: The most versions of all models of a project; only users delete them.
MODELS_MAX: Final = 10_000
#: The most versions of a model that are searched for an alias.
VERSIONS_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    """A version of a model, and whether it is the default version."""

    model: StoredModel
    is_newest: bool


@dataclass(frozen=True, slots=True)
class ModelService:
    """Models.  Methods raise Refusal.  Thread-safe."""

    store: Store
    now: Callable[[], datetime] = lambda: datetime.now(tz=UTC)

    def upload(self, project: ProjectId, location: str, document: Any) -> Operation:
        """Register a folder of artifacts; returns a finished operation."""
        draft, violations = upload_request(document if isinstance(document, dict) else {})
        if problems := (*violations, *self._unknown_bucket(project, draft)):
            raise invalid(problems)
        model = self.store.add_model(new_model(self.store, project, location, draft))
        name = resource_name(MODELS, project, location, model.model_id)
        return new_operation(self.store, project, location, self.now(), f"{name}@{model.version}")

    def get(self, project: ProjectId, location: str, name: str) -> ModelView:
        """Return a model by ``MODEL``, ``MODEL@VERSION`` or ``MODEL@ALIAS``."""
        model_id, _, selector = name.partition("@")
        versions = self._versions(project, location, model_id)
        newest = max((model.version for model in versions), default=0)
        for model in sorted(versions, key=lambda model: model.version, reverse=True):
            view = ModelView(model=model, is_newest=model.version == newest)
            if not selector or selector in {str(model.version), *_aliases(view)}:
                return view
        raise not_found(resource_name(MODELS, project, location, name))

    def list(self, call: ListCall) -> tuple[Sequence[ModelView], str]:
        """Return one page of models by their newest versions, newest first, and the next token."""
        models, token = one_page(call, models_filter, self.store.list_models, _key_of, self.now())
        return [ModelView(model=model, is_newest=True) for model in models], token

    def versions(self, call: ListCall, model_id: str) -> tuple[Sequence[ModelView], str]:
        """Return one page of the versions of a model, newest first, and the next token."""
        newest = self.get(call.project, call.location, model_id).model.version
        rows_of = partial(self.store.list_versions, model_id=model_id)
        models, token = one_page(call, models_filter, rows_of, _key_of, self.now())
        return [
            ModelView(model=model, is_newest=model.version == newest) for model in models
        ], token

    def delete(self, project: ProjectId, location: str, model_id: str) -> Operation:
        """Delete a model with all its versions; the artifacts stay."""
        self.get(project, location, model_id)
        self.store.delete_model(project, location, model_id)
        return deleted(self.store, project, location, self.now())

    def _versions(self, project: str, location: str, model_id: str) -> Sequence[StoredModel]:
        query = JobQuery(
            project=project,
            kind=JobKind.CUSTOM_JOB,
            location=location,
            filter=AllOf(),
            page_size=VERSIONS_MAX,
        )
        return self.store.list_versions(query, model_id)

    def _unknown_bucket(self, project: ProjectId, draft: ModelDraft) -> Sequence[Violation]:
        """Return a violation for a folder outside of the project's buckets."""
        uri = draft.artifact_uri
        try:
            bucket = split(uri)[0] if uri else None
        except UsageFault as fault:
            return [_bad_folder("model", str(fault), "gs://BUCKET/FOLDER")]
        if bucket is None or buckets_of_project(self.store, project)(bucket):
            return []
        return [
            _bad_folder("no-bucket", NO_BUCKET.format(bucket=bucket), "a bucket of the project")
        ]


def new_model(store: Store, project: ProjectId, location: str, draft: ModelDraft) -> NewModel:
    """Return the row of a draft.  Raises Refusal beyond the limit, or without its parent."""
    if len(draft.document) > DOCUMENT_BYTES_MAX:
        message = f"the model must have at most {DOCUMENT_BYTES_MAX} bytes"
        raise Refusal(Code.INVALID_ARGUMENT, message)
    if store.count_models(project) >= MODELS_MAX:
        message = f"{project} has {MODELS_MAX} versions of models; delete some"
        raise Refusal(Code.RESOURCE_EXHAUSTED, message)
    if draft.parent:
        ModelService(store).get(project, location, draft.parent)
    model_id = draft.parent or draft.model_id
    return NewModel(project=project, location=location, model_id=model_id, document=draft.document)


def _aliases(view: ModelView) -> Sequence[str]:
    return aliases_of(view.model.document, is_newest=view.is_newest)


def _bad_folder(rule: str, message: str, accepted: str) -> Violation:
    return Violation(field="model.artifactUri", rule=rule, message=message, accepted=accepted)


def _key_of(model: StoredModel) -> tuple[datetime | None, int]:
    return model.create_time, model.uid
