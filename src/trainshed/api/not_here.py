"""What clients know of Google's and is not here: its methods have a fixed answer, one sentence.

An answer in Google's form is shown as it is; a bare 404 is not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from trainshed.api.call import Call, Json
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import resource_name
from trainshed.service.refusing import not_found


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """A collection that is not here: what Google calls it, the queries it has, the sentence."""

    message: str
    service: str
    item: str
    sentence: str
    of_create: tuple[str, ...] = ()
    of_list: tuple[str, ...] = ("filter", "orderBy", "pageSize", "pageToken", "readMask")
    is_patched: bool = False


#: What exists instead is in each sentence: many clients print that and nothing else.
ABSENT: Final[Mapping[str, Absent]] = {
    "batchPredictionJobs": Absent(
        message="BatchPredictionJob",
        service="JobService",
        item="batch_prediction_job",
        of_list=("filter", "pageSize", "pageToken", "readMask"),
        sentence="there is no batch prediction here; submit a custom job whose program loads the "
        "model from its artifactUri",
    ),
    "endpoints": Absent(
        message="Endpoint",
        service="EndpointService",
        item="endpoint",
        of_create=("endpointId",),
        of_list=("filter", "gdcZone", "orderBy", "pageSize", "pageToken", "readMask"),
        is_patched=True,
        sentence="there are no endpoints here, and nothing serves models; a model's artifactUri "
        "names the folder to serve it from",
    ),
    "persistentResources": Absent(
        message="PersistentResource",
        service="PersistentResourceService",
        item="persistent_resource",
        of_create=("persistentResourceId",),
        of_list=("pageSize", "pageToken"),
        is_patched=True,
        sentence="there are no persistent resources here: the machines are always there; submit "
        "custom jobs without one",
    ),
    "pipelineJobs": Absent(
        message="PipelineJob",
        service="PipelineService",
        item="pipeline_job",
        of_create=("pipelineJobId",),
        sentence="there are no pipelines of components here; submit custom jobs, tuning jobs or "
        "training pipelines with a custom task",
    ),
    "tensorboards": Absent(
        message="Tensorboard",
        service="TensorboardService",
        item="tensorboard",
        is_patched=True,
        sentence="there are no TensorBoard resources here; point TensorBoard at the job's log "
        "directory",
    ),
}


def none_of(collection: str) -> Callable[[Call], NoReturn]:
    """There is no such collection, whatever is asked of it."""

    def refuse(call: Call) -> NoReturn:
        del call
        raise Refusal(Code.UNIMPLEMENTED, ABSENT[collection].sentence)

    return refuse


def absent_rpcs() -> Mapping[str, str]:
    """The gRPC names of the same methods, in both versions, with the sentence of each."""
    return {
        f"google.cloud.aiplatform.{version}.{absent.service}/{name}": absent.sentence
        for absent in ABSENT.values()
        for version in ("v1", "v1beta1")
        for name in (
            f"Create{absent.message}",
            f"Get{absent.message}",
            f"List{absent.message}s",
            f"Delete{absent.message}",
        )
    }


def no_policies(call: Call) -> NoReturn:
    """There are no IAM policies: access is by project and role of the token."""
    del call
    message = "jobs have no IAM policies here; access is by the token's project and role"
    raise Refusal(Code.UNIMPLEMENTED, message)


def no_deployments(call: Call) -> NoReturn:
    """There are no models of AI Platform, which were folders to predict with."""
    del call
    message = (
        "there are no models of AI Platform here, and nothing serves any; a job's files are where "
        "its program wrote them"
    )
    raise Refusal(Code.UNIMPLEMENTED, message)


def no_operation(call: Call) -> NoReturn:
    """Resources of training have no operations of their own."""
    params = call.params
    where = (params["project"], params["location"], params["operation"])
    raise not_found(resource_name("operations", *where))


def no_operations(call: Call) -> Json:
    """None is under way: what answers with an operation is over by then."""
    del call
    return {}
