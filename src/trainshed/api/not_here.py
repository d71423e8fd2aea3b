"""Google's collections that this server does not have: their methods answer a fixed sentence.

Clients show a refusal in Google's form to the user, but not a 404 without one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from re import sub
from typing import Final, NoReturn

from trainshed.api.call import Call, Json
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import resource_name
from trainshed.service.jobs.refusing import not_found


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """An unsupported collection: its names, its query parameters by method, and the refusal."""

    message: str
    service: str
    sentence: str
    of_create: tuple[str, ...] = ()
    of_list: tuple[str, ...] = ("filter", "orderBy", "pageSize", "pageToken", "readMask")
    of_get: tuple[str, ...] = ()
    of_delete: tuple[str, ...] = ()
    is_patched: bool = False
    is_deleted: bool = True
    plural: str = ""
    """The message's plural, if it is not formed with an s."""

    @property
    def item(self) -> str:
        """Return the name of the resource's id in paths: the message's name in snake case."""
        return sub("(?<!^)(?=[A-Z])", "_", self.message).lower()

    @property
    def calls(self) -> tuple[str, ...]:
        """Return the names of the collection's gRPC calls."""
        plural = self.plural or f"{self.message}s"
        names = (f"Create{self.message}", f"Get{self.message}", f"List{plural}")
        return (*names, f"Delete{self.message}") if self.is_deleted else names


#: Query parameters of lists, shared by several collections.
_PAGES: Final = ("pageSize", "pageToken")
_FILTERED: Final = ("filter", *_PAGES)
_MASKED: Final = ("filter", *_PAGES, "readMask")
_ORDERED: Final = ("filter", "orderBy", *_PAGES)

_FEATURES: Final = (
    "there is no feature store here; have the program read its features from files in a bucket"
)
_VECTORS: Final = (
    "there is no vector search here; have the program write its index to a bucket, and serve it "
    "elsewhere"
)

#: Each sentence names the alternative, because many clients print nothing else.
ABSENT: Final[Mapping[str, Absent]] = {
    "batchPredictionJobs": Absent(
        message="BatchPredictionJob",
        service="JobService",
        of_list=_MASKED,
        sentence="there is no batch prediction here; submit a custom job whose program loads the "
        "model from its artifactUri",
    ),
    "dataLabelingJobs": Absent(
        message="DataLabelingJob",
        service="JobService",
        sentence="there is no data labelling here; put labelled files into a bucket and have the "
        "program read them",
    ),
    "datasets": Absent(
        message="Dataset",
        service="DatasetService",
        of_get=("readMask",),
        is_patched=True,
        sentence="there are no managed datasets here; put the files into a bucket and give the job "
        "their gs:// URI as an argument",
    ),
    "deploymentResourcePools": Absent(
        message="DeploymentResourcePool",
        service="DeploymentResourcePoolService",
        of_list=_PAGES,
        is_patched=True,
        sentence="there are no deployments here, and nothing serves models; a model's artifactUri "
        "names the folder to serve it from",
    ),
    "endpoints": Absent(
        message="Endpoint",
        service="EndpointService",
        of_create=("endpointId",),
        of_list=("filter", "gdcZone", "orderBy", "pageSize", "pageToken", "readMask"),
        is_patched=True,
        sentence="there are no endpoints here, and nothing serves models; a model's artifactUri "
        "names the folder to serve it from",
    ),
    "featureGroups": Absent(
        message="FeatureGroup",
        service="FeatureRegistryService",
        of_create=("featureGroupId",),
        of_list=_ORDERED,
        of_delete=("force",),
        is_patched=True,
        sentence=_FEATURES,
    ),
    "featureOnlineStores": Absent(
        message="FeatureOnlineStore",
        service="FeatureOnlineStoreAdminService",
        of_create=("featureOnlineStoreId",),
        of_list=_ORDERED,
        of_delete=("force",),
        is_patched=True,
        sentence=_FEATURES,
    ),
    "featurestores": Absent(
        message="Featurestore",
        service="FeaturestoreService",
        of_create=("featurestoreId",),
        of_delete=("force",),
        is_patched=True,
        sentence=_FEATURES,
    ),
    "indexEndpoints": Absent(
        message="IndexEndpoint",
        service="IndexEndpointService",
        of_list=_MASKED,
        is_patched=True,
        sentence=_VECTORS,
    ),
    "indexes": Absent(
        message="Index",
        service="IndexService",
        of_list=_MASKED,
        is_patched=True,
        plural="Indexes",
        sentence=_VECTORS,
    ),
    "metadataStores": Absent(
        message="MetadataStore",
        service="MetadataService",
        of_create=("metadataStoreId",),
        of_list=_PAGES,
        of_delete=("force",),
        sentence="there are no metadata stores here, so no experiments, contexts or artifacts; "
        "have the program write TensorBoard events or its own files to its output directory",
    ),
    "modelDeploymentMonitoringJobs": Absent(
        message="ModelDeploymentMonitoringJob",
        service="JobService",
        of_list=_MASKED,
        is_patched=True,
        sentence="nothing serves models here, so there is no deployment to watch; submit a custom "
        "job that evaluates the model",
    ),
    "nasJobs": Absent(
        message="NasJob",
        service="JobService",
        of_list=_MASKED,
        sentence="there is no neural architecture search here; submit a HyperparameterTuningJob "
        "whose parameters describe the architecture",
    ),
    "notebookExecutionJobs": Absent(
        message="NotebookExecutionJob",
        service="NotebookService",
        of_create=("notebookExecutionJobId",),
        of_list=(*_ORDERED, "view"),
        of_get=("view",),
        sentence="there are no notebook jobs here; submit a custom job whose program runs the "
        "notebook, with papermill or nbconvert",
    ),
    "persistentResources": Absent(
        message="PersistentResource",
        service="PersistentResourceService",
        of_create=("persistentResourceId",),
        of_list=_PAGES,
        is_patched=True,
        sentence="there are no persistent resources here: the machines are always there; submit "
        "custom jobs without one",
    ),
    "pipelineJobs": Absent(
        message="PipelineJob",
        service="PipelineService",
        of_create=("pipelineJobId",),
        sentence="there are no pipelines of components here; submit custom jobs, tuning jobs or "
        "training pipelines with a custom task",
    ),
    "schedules": Absent(
        message="Schedule",
        service="ScheduleService",
        of_list=_ORDERED,
        is_patched=True,
        sentence="there are no schedules here; have cron, a systemd timer or your CI submit the "
        "job",
    ),
    "studies": Absent(
        message="Study",
        service="VizierService",
        of_list=_PAGES,
        plural="Studies",
        sentence="there are no Vizier studies here; submit a HyperparameterTuningJob with the same "
        "studySpec",
    ),
    "tensorboards": Absent(
        message="Tensorboard",
        service="TensorboardService",
        is_patched=True,
        sentence="there are no TensorBoard resources here; point TensorBoard at the job's log "
        "directory",
    ),
    "tuningJobs": Absent(
        message="TuningJob",
        service="GenAiTuningService",
        of_list=_FILTERED,
        is_deleted=False,
        sentence="there is no tuning of Google's own models here; submit a custom job that trains "
        "your model, or a HyperparameterTuningJob",
    ),
}


def none_of(collection: str) -> Callable[[Call], NoReturn]:
    """Return a handler that refuses every call of an unsupported collection."""

    def refuse(call: Call) -> NoReturn:
        del call
        raise Refusal(Code.UNIMPLEMENTED, ABSENT[collection].sentence)

    return refuse


def absent_rpcs() -> Mapping[str, str]:
    """Return the refusal of each gRPC method of these collections, in both versions."""
    return {
        f"google.cloud.aiplatform.{version}.{absent.service}/{name}": absent.sentence
        for absent in ABSENT.values()
        for version in ("v1", "v1beta1")
        for name in absent.calls
    }


def absent_sentence(collections: Iterable[str]) -> str:
    """Return the sentence of the first unsupported collection; empty without one."""
    return next((ABSENT[name].sentence for name in collections if name in ABSENT), "")


def no_policies(call: Call) -> NoReturn:
    """Refuse: there are no IAM policies; access is by the token's project and role."""
    del call
    message = "jobs have no IAM policies here; access is by the token's project and role"
    raise Refusal(Code.UNIMPLEMENTED, message)


def no_deployments(call: Call) -> NoReturn:
    """Refuse: there are no AI Platform models, which would serve predictions."""
    del call
    message = (
        "there are no models of AI Platform here, and nothing serves any; a job's files are where "
        "its program wrote them"
    )
    raise Refusal(Code.UNIMPLEMENTED, message)


def no_operation(call: Call) -> NoReturn:
    """Refuse: resources of training have no operations of their own."""
    params = call.params
    where = (params["project"], params["location"], params["operation"])
    raise not_found(resource_name("operations", *where))


def no_operations(call: Call) -> Json:
    """Return an empty list: every operation has ended when a client first sees it."""
    del call
    return {}
