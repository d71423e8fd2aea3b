"""``aiplatform/v1`` over the use cases: a resource's document in, the resource out."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from trainshed.api.call import Call, Json
from trainshed.api.lists import masked, page, page_size_of
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import PIPELINES, JobId, OperationId, ProjectId
from trainshed.model.status import Job
from trainshed.service.jobs import JobService, OperationService
from trainshed.service.pipelines import PipelineService, PipelineView
from trainshed.store.records import Kind, Operation
from trainshed.wire.aiplatform_v1 import render
from trainshed.wire.aiplatform_v1.render import deletion


class _Words(NamedTuple):
    message: str
    render: Callable[[Job], Json]


#: The message of each kind of job, and how it is written.
WORDS: Final[Mapping[Kind, _Words]] = {
    Kind.CUSTOM_JOB: _Words("CustomJob", render.custom_job),
    Kind.TUNING_JOB: _Words("HyperparameterTuningJob", render.tuning_job),
}


class VertexJobs:
    """The methods of ``customJobs`` or of ``hyperparameterTuningJobs``."""

    def __init__(self, kind: Kind, jobs: JobService) -> None:
        """Ask this service for jobs of this kind."""
        self._kind = kind
        self._jobs = jobs
        self._message, self._render = WORDS[kind]

    def create(self, call: Call) -> Json:
        """Submit; the answer has the full name that gcloud needs (contracts/gcloud.md 6.1)."""
        record = self._jobs.create(
            self._kind,
            *parent_of(call),
            call.document,
            creator=call.caller.name,
            retry_key=call.retry_key,
        )
        return self._render(record.job)

    def get(self, call: Call) -> Json:
        """One job; a tuning job with its trials, which lists leave out (gcloud.md 6.2)."""
        record = self._jobs.get(self._kind, *parent_of(call), JobId(call.params["job"]))
        if record.job.spec.is_study:
            return render.tuning_job(record.job, self._jobs.trials(record))
        return self._render(record.job)

    def list(self, call: Call) -> Json:
        """One page of jobs, newest first, with the fields of the mask."""
        records, token = self._jobs.list(
            self._kind,
            *parent_of(call),
            filter_text=call.query.get("filter", ""),
            page_size=page_size_of(call.query),
            page_token=call.query.get("pageToken", ""),
        )
        found = [self._render(record.job) for record in records]
        return page(
            self._kind.value, masked(found, call.query.get("readMask", ""), self._message), token
        )

    def cancel(self, call: Call) -> Json:
        """Ask for the end; a finished job stays as it is."""
        job = JobId(call.params["job"])
        self._jobs.cancel(self._kind, *parent_of(call), job, by=call.caller.name)
        return {}

    def delete(self, call: Call) -> Json:
        """Hide a finished job."""
        return operation(self._jobs.delete(self._kind, *parent_of(call), JobId(call.params["job"])))


class VertexOperations:
    """The methods of ``operations``: all of them are over when they are first heard of."""

    def __init__(self, operations: OperationService) -> None:
        """Ask this service."""
        self._operations = operations

    def get(self, call: Call) -> Json:
        """One operation; to wait for one is the same."""
        number = OperationId(call.params["operation"])
        return operation(self._operations.get(*parent_of(call), number))

    def cancel(self, call: Call) -> Json:
        """Nothing, where the operation is known: it is over."""
        self.get(call)
        return {}

    def delete(self, call: Call) -> Json:
        """Refused, as Google's services may do; a finished operation takes no room."""
        self.get(call)
        raise Refusal(Code.UNIMPLEMENTED, "operations are not deleted here")


def operation(found: Operation) -> Json:
    """An Operation as clients read it."""
    return deletion(found.name, found.create_time)


def parent_of(call: Call) -> tuple[ProjectId, str]:
    """The project and location of the resource."""
    return ProjectId(call.params["project"]), call.params["location"]


class TrainingPipelines:
    """The methods of ``trainingPipelines``."""

    def __init__(self, pipelines: PipelineService) -> None:
        """Ask this service."""
        self._pipelines = pipelines

    def create(self, call: Call) -> Json:
        """Submit a pipeline with its job."""
        view = self._pipelines.create(
            *parent_of(call), call.document, creator=call.caller.name, retry_key=call.retry_key
        )
        return _rendered(view)

    def get(self, call: Call) -> Json:
        """One pipeline."""
        return _rendered(self._pipelines.get(*parent_of(call), JobId(call.params["pipeline"])))

    def list(self, call: Call) -> Json:
        """One page of pipelines, newest first, with the fields of the mask."""
        views, token = self._pipelines.list(
            *parent_of(call),
            filter_text=call.query.get("filter", ""),
            page_size=page_size_of(call.query),
            page_token=call.query.get("pageToken", ""),
        )
        found = [_rendered(view) for view in views]
        mask = call.query.get("readMask", "")
        return page(PIPELINES, masked(found, mask, "TrainingPipeline"), token)

    def cancel(self, call: Call) -> Json:
        """Ask for the end of its job."""
        pipeline = JobId(call.params["pipeline"])
        self._pipelines.cancel(*parent_of(call), pipeline, by=call.caller.name)
        return {}

    def delete(self, call: Call) -> Json:
        """Forget a finished pipeline."""
        return operation(self._pipelines.delete(*parent_of(call), JobId(call.params["pipeline"])))


def _rendered(view: PipelineView) -> Json:
    return render.training_pipeline(view.job, backing_custom_job=view.backing_custom_job)
