"""``trainingPipelines`` of ``aiplatform/v1`` over the use cases."""

from trainshed.api.aiplatform_v1 import operation, parent_of
from trainshed.api.call import Call, Json
from trainshed.api.lists import page, page_size_of
from trainshed.api.read_masks import masked
from trainshed.service.pipelines import COLLECTION, PipelineService, PipelineView
from trainshed.wire.aiplatform_v1 import render


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
        return _rendered(self._pipelines.get(*parent_of(call), call.params["pipeline"]))

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
        return page(COLLECTION, masked(found, mask, "TrainingPipeline"), token)

    def cancel(self, call: Call) -> Json:
        """Ask for the end of its job."""
        pipeline = call.params["pipeline"]
        self._pipelines.cancel(*parent_of(call), pipeline, by=call.caller.name)
        return {}

    def delete(self, call: Call) -> Json:
        """Forget a finished pipeline."""
        return operation(self._pipelines.delete(*parent_of(call), call.params["pipeline"]))


def _rendered(view: PipelineView) -> Json:
    return render.training_pipeline(view.job, backing_custom_job=view.backing_custom_job)
