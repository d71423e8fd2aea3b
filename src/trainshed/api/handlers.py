"""The handlers of Google's routes, which take documents and return resources."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainshed.api.call import Call, Json
from trainshed.api.permissions import Permissions
from trainshed.model.access import AccessRole
from trainshed.model.faults import Violation
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import MODELS, PIPELINES, JobId, OperationId, ProjectId
from trainshed.service.jobs.job_service import JobService, OperationService
from trainshed.service.jobs.models import ModelService, ModelView
from trainshed.service.jobs.paging import ListCall
from trainshed.service.jobs.pipelines import PipelineService, PipelineView
from trainshed.service.log.pages import LogService
from trainshed.store.records.jobs import JobKind
from trainshed.store.records.models import Operation
from trainshed.wire.aiplatform_v1 import render as vertex
from trainshed.wire.aiplatform_v1.models import model_json, upload
from trainshed.wire.fields import table
from trainshed.wire.logging_v2 import entries
from trainshed.wire.ml_v1 import render as ml

#: The message name of each kind of job, and the function that renders a job (and its trials).
WORDS: Final[Mapping[JobKind, tuple[str, Callable[..., Json]]]] = {
    JobKind.ML_JOB: ("Job", ml.job),
    JobKind.CUSTOM_JOB: ("CustomJob", vertex.custom_job),
    JobKind.TUNING_JOB: ("HyperparameterTuningJob", vertex.tuning_job),
}


class JobHandlers:
    """The methods of ``projects.jobs``, ``customJobs`` or ``hyperparameterTuningJobs``."""

    def __init__(self, kind: JobKind, jobs: JobService) -> None:
        """``kind`` decides the message and the renderer; ``jobs`` is the service of all kinds."""
        self._kind = kind
        self._jobs = jobs
        self._message, self._render = WORDS[kind]

    def create(self, call: Call) -> Json:
        """Submit a job; the answer has its full name (docs/sources/gcloud.md 6.1)."""
        record = self._jobs.create(self._kind, *_parent(call), call.document, **_creator(call))
        return self._render(record.job)

    def get(self, call: Call) -> Json:
        """Return one job, a tuning job with its trials.

        Lists leave the trials out (docs/sources/gcloud.md 6.2).
        """
        record = self._jobs.get(self._kind, *_name(call))
        trials = self._jobs.trials(record)
        return self._render(record.job, trials) if trials else self._render(record.job)

    def list(self, call: Call) -> Json:
        """Return one page of jobs, newest first, with the fields of the mask."""
        records, token = self._jobs.list(_list_call(call, self._kind, self._kind.value))
        jobs = [self._render(record.job) for record in records]
        return _page(call, self._kind.value, jobs, self._message, token)

    def cancel(self, call: Call) -> Json:
        """Cancel a job; a finished one does not change (docs/sources/gcloud.md 3.3)."""
        self._jobs.cancel(self._kind, *_name(call), by=call.caller.name)
        return {}

    def delete(self, call: Call) -> Json:
        """Delete a finished job, so that clients no longer see it."""
        return _operation(self._jobs.delete(self._kind, *_name(call)))

    def patch(self, call: Call) -> Json:
        """Replace the labels of an ml v1 job."""
        project, _, job = _name(call)
        mask = call.query.get("updateMask", "")
        return self._render(self._jobs.patch(project, job, call.document, mask).job)


@dataclass(frozen=True, slots=True)
class TrainingPipelines:
    """The methods of ``trainingPipelines``."""

    pipelines: PipelineService

    def create(self, call: Call) -> Json:
        """Submit a pipeline with its job."""
        return _render_pipeline(
            self.pipelines.create(*_parent(call), call.document, **_creator(call))
        )

    def get(self, call: Call) -> Json:
        """Return one pipeline."""
        return _render_pipeline(self.pipelines.get(*_name(call, "pipeline")))

    def list(self, call: Call) -> Json:
        """Return one page of pipelines, newest first, with the fields of the mask."""
        views, token = self.pipelines.list(_list_call(call, JobKind.CUSTOM_JOB, PIPELINES))
        return _page(call, PIPELINES, [_render_pipeline(view) for view in views], PIPELINE, token)

    def cancel(self, call: Call) -> Json:
        """Cancel the job of a pipeline."""
        self.pipelines.cancel(*_name(call, "pipeline"), by=call.caller.name)
        return {}

    def delete(self, call: Call) -> Json:
        """Delete a finished pipeline."""
        return _operation(self.pipelines.delete(*_name(call, "pipeline")))


PIPELINE: Final = "TrainingPipeline"


def _render_pipeline(view: PipelineView) -> Json:
    backing = view.backing_custom_job
    return vertex.training_pipeline(view.job, backing_custom_job=backing, model=view.model)


MODEL: Final = "Model"


@dataclass(frozen=True, slots=True)
class ModelHandlers:
    """The methods of ``models``: names for folders of artifacts, which no server deploys."""

    models: ModelService

    def upload(self, call: Call) -> Json:
        """Register a folder; the operation that the answer names has ended."""
        return _operation(self.models.upload(*_parent(call), call.document))

    def get(self, call: Call) -> Json:
        """Return a version of a model, the newest unless the name has a version."""
        return _model(self.models.get(*_name(call, "model")))

    def list(self, call: Call) -> Json:
        """Return one page of models, newest first, with the fields of the mask."""
        views, token = self.models.list(_models_call(call))
        return _page(call, MODELS, [_model(view) for view in views], MODEL, token)

    def list_versions(self, call: Call) -> Json:
        """Return one page of the versions of a model, newest first."""
        views, token = self.models.versions(_models_call(call), call.params["model"])
        return _page(call, MODELS, [_model(view) for view in views], MODEL, token)

    def delete(self, call: Call) -> Json:
        """Delete a model; its artifacts stay."""
        return _operation(self.models.delete(*_name(call, "model")))


#: The order of all lists.
NEWEST_FIRST: Final = ("", "create_time desc", "createTime desc")


def _models_call(call: Call) -> ListCall:
    order = call.query.get("orderBy", "")
    if order not in NEWEST_FIRST:
        message = f"orderBy must be empty or create_time desc, got {order[:80]!r}"
        raise Refusal(Code.INVALID_ARGUMENT, message)
    collection = "/".join((MODELS, call.params.get("model", "")))
    return _list_call(call, JobKind.CUSTOM_JOB, collection)


def _model(view: ModelView) -> Json:
    model = view.model
    return model_json(
        model.document,
        name=(model.project, model.location, model.model_id),
        version=model.version,
        is_newest=view.is_newest,
        pipeline_uid=model.pipeline_uid,
        create_time=model.create_time,
    )


@dataclass(frozen=True, slots=True)
class Operations:
    """The methods of ``operations``: every operation has ended when a client first sees it."""

    operations: OperationService

    def get(self, call: Call) -> Json:
        """Return an operation; ``wait`` does the same, because operations have already ended."""
        number = OperationId(call.params["operation"])
        return _operation(self.operations.get(*_parent(call), number))

    def cancel(self, call: Call) -> Json:
        """Do nothing if the operation exists: it has ended."""
        self.get(call)
        return {}

    def delete(self, call: Call) -> Json:
        """Refuse; Google allows a service to refuse this."""
        self.get(call)
        raise Refusal(Code.UNIMPLEMENTED, "operations cannot be deleted")


@dataclass(frozen=True, slots=True)
class LogEntries:
    """``entries:list``, the method by which clients read logs (docs/sources/gcloud.md 7).

    The document names the project, so the handler checks the caller's permission.
    """

    logs: LogService
    permissions: Permissions

    def list(self, call: Call) -> Json:
        """Return one page of the entries of a project's jobs."""
        project_name, query = entries.parse(call.document)
        project = self.permissions.enter(call.caller, AccessRole.VIEWER, project_name)
        entry_page = self.logs.entries(project, query)
        documents = [entry.render() for entry in entry_page.entries]
        return page("entries", documents, entry_page.next_page_token)


def _operation(operation: Operation) -> Json:
    if operation.made:
        return upload(operation.name, operation.made, operation.create_time)
    return vertex.deletion(operation.name, operation.create_time)


def _parent(call: Call) -> tuple[ProjectId, str]:
    """Return the project and location of the resource; ml v1 has no locations."""
    return ProjectId(call.params["project"]), call.params.get("location", "")


def _name(call: Call, item: str = "job") -> tuple[ProjectId, str, JobId]:
    return *_parent(call), JobId(call.params[item])


def _creator(call: Call) -> dict[str, Any]:
    return {"creator": call.caller.name, "retry_key": call.retry_key}


def _list_call(call: Call, kind: JobKind, collection: str) -> ListCall:
    project, location = _parent(call)
    return ListCall(
        collection=collection,
        kind=kind,
        project=project,
        location=location,
        filter_text=call.query.get("filter", ""),
        page_size=page_size_of(call.query),
        page_token=call.query.get("pageToken", ""),
    )


def _page(call: Call, collection: str, resources: Sequence[Json], message: str, token: str) -> Json:
    return page(collection, masked(resources, call.query.get("readMask", ""), message), token)


#: page_size is an int32 on the wire.
_SIZE_BITS = 31
_INT32 = re.compile(r"[+-]?[0-9]{1,10}")


def page_size_of(query: Mapping[str, str]) -> int:
    """Return ``pageSize`` as a number, 0 if it is not given.  Raises a Refusal."""
    text = query.get("pageSize", "")
    if not text:
        return 0
    if not _INT32.fullmatch(text) or abs(int(text)) >= 1 << _SIZE_BITS:
        message = f"page_size must be a whole number of 32 bits, got {text[:50]!r}"
        violation = Violation(
            field="page_size", rule="wrong-type", message=message, accepted="0 to 1000"
        )
        raise Refusal(Code.INVALID_ARGUMENT, message, (violation,))
    return int(text)


def page(collection: str, resources: Sequence[Json], token: str) -> Json:
    """Return a page in Google's form: no empty list, no token on the last page."""
    document: Json = {collection: list(resources)} if resources else {}
    return {**document, "nextPageToken": token} if token else document


DIALECT: Final = "aiplatform_v1"
EVERYTHING: Final = "*"


def masked(resources: Sequence[Json], mask: str, message: str) -> Sequence[Json]:
    """Return the resources with the mask's fields only; an empty mask keeps all fields.

    ``mask`` is a list of paths in either key case, separated by commas.  ``message`` is the
    resources' message type.  Raises a Refusal for a path that the message does not have.
    """
    paths = [_path(text.strip(), message) for text in mask.split(",") if text.strip()]
    if not paths or [EVERYTHING] in paths:
        return resources
    return [_pick(resource, paths) for resource in resources]


def _path(text: str, message: str) -> list[str]:
    """Return a path in camelCase.  Fields inside maps, lists and free JSON cannot be selected."""
    if text == EVERYTHING:
        return [EVERYTHING]
    messages, json_names = table(DIALECT).messages, list[str]()
    info = messages.get(message)
    for step in text.split("."):
        field = info.by_key.get(step) if info else None
        if field is None:
            raise _mask_refusal(text, message)
        json_names.append(field.json_name)
        info = None if field.is_repeated else messages.get(field.type)
    return json_names


def _mask_refusal(text: str, message: str) -> Refusal:
    problem = f"read_mask: {message} has no field {text[:100]}"
    accepted = ", ".join(info.json_name for info in table(DIALECT).messages[message].fields)
    violation = Violation(
        field="read_mask", rule="unknown-field", message=problem, accepted=accepted
    )
    return Refusal(Code.INVALID_ARGUMENT, problem, (violation,))


def _pick(resource: Json, paths: list[list[str]]) -> Json:
    selection: Json = {}
    for name, value in resource.items():
        subpaths = [path[1:] for path in paths if path[0] == name]
        if [] in subpaths:
            selection[name] = value
        elif subpaths:
            selection[name] = _pick(value, subpaths)
    return selection
