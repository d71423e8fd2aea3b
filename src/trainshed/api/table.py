"""The table of Google's routes, for REST and gRPC.

Written by hand, because no published description of the aiplatform services comes with their
package (docs/sources/vertex.md 9.2).  A test compares it with the installed clients, and fails if
they have a new method of a training collection.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from trainshed.api.call import Call, Json, Method
from trainshed.api.handlers import (
    JobHandlers,
    LogEntries,
    ModelHandlers,
    Operations,
    TrainingPipelines,
)
from trainshed.api.not_here import (
    ABSENT,
    no_deployments,
    no_operation,
    no_operations,
    no_policies,
    none_of,
)
from trainshed.model.access import AccessRole

PACKAGE: Final = "google.cloud.aiplatform.v1"
LONG: Final = "google.longrunning"
LOGGING: Final = "google.logging.v2"
EMPTY: Final = "google.protobuf.Empty"
LOG_PATH: Final = "/v2/entries:list"
LOCATION: Final = "/v1/projects/{project}/locations/{location}"

OPERATIONS_QUERY: Final = ("filter", "pageSize", "pageToken", "returnPartialSuccess")

VIEWER: Final = AccessRole.VIEWER
SUBMITTER: Final = AccessRole.SUBMITTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
    """The handlers of all rows."""

    ml_jobs: JobHandlers
    custom_jobs: JobHandlers
    tuning_jobs: JobHandlers
    pipelines: TrainingPipelines
    models: ModelHandlers
    operations: Operations
    logs: LogEntries


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """A collection of Vertex AI: the parts that form the names of its methods and messages."""

    word: str
    message: str
    service: str
    body: str
    item: str = "job"


CUSTOM_JOBS: Final = Collection(
    word="customJobs", message="CustomJob", service="JobService", body="custom_job"
)
TUNING_JOBS: Final = Collection(
    word="hyperparameterTuningJobs",
    message="HyperparameterTuningJob",
    service="JobService",
    body="hyperparameter_tuning_job",
)
PIPELINES: Final = Collection(
    word="trainingPipelines",
    message="TrainingPipeline",
    service="PipelineService",
    body="training_pipeline",
    item="pipeline",
)


def google_table(handlers: Handlers) -> tuple[Method, ...]:
    """Return all rows.  Vertex AI rows also exist as v1beta1, where gcloud polls operations."""
    vertex = (
        *_collection(CUSTOM_JOBS, handlers.custom_jobs),
        *_collection(TUNING_JOBS, handlers.tuning_jobs),
        *_collection(PIPELINES, handlers.pipelines),
        *_operations(handlers.operations),
        *_models(handlers.models),
        *(row for name in ABSENT for row in _absent(name)),
    )
    # the Vertex SDK reads operations below /ui, in v1 and in v1beta1
    # (docs/sources/vertex.md 1)
    console = (
        replace(row, path=row.path.replace("/v1/", "/ui/", 1), rpc="")
        for row in _operations(handlers.operations)
    )
    logs = _row("POST", LOG_PATH, VIEWER, handlers.logs.list, body="*",
                rpc=f"{LOGGING}.LoggingServiceV2/ListLogEntries",
                response=f"{LOGGING}.ListLogEntriesResponse")  # fmt: skip
    return (*_ml(handlers.ml_jobs), *vertex, *map(_beta, vertex), *console, logs)


def _ml(jobs: JobHandlers) -> Iterator[Method]:
    parent = "/v1/projects/{project}/jobs"
    name = f"{parent}/{{job}}"
    yield _row("POST", parent, SUBMITTER, jobs.create, body="*")
    yield _row("GET", parent, VIEWER, jobs.list, query=("filter", "pageSize", "pageToken"))
    yield _row("GET", name, VIEWER, jobs.get)
    yield _row("POST", f"{name}:cancel", SUBMITTER, jobs.cancel, body="*")
    yield _row("PATCH", name, SUBMITTER, jobs.patch, body="*", query=("updateMask",))
    models = "/v1/projects/{project}/models"
    yield _row("POST", models, VIEWER, no_deployments)
    yield _row("GET", models, VIEWER, no_deployments, query=("filter", "pageSize", "pageToken"))
    yield _row("GET", f"{models}/{{model}}", VIEWER, no_deployments)
    policy = ("options.requestedPolicyVersion",)
    yield _row("GET", f"{name}:getIamPolicy", VIEWER, no_policies, query=policy)
    yield _row("POST", f"{name}:setIamPolicy", VIEWER, no_policies)
    yield _row("POST", f"{name}:testIamPermissions", VIEWER, no_policies)


def _collection(
    collection: Collection, handlers: JobHandlers | TrainingPipelines
) -> Iterator[Method]:
    parent, message = f"{LOCATION}/{collection.word}", collection.message
    name = f"{parent}/{{{collection.item}}}"
    rpc, response = f"{PACKAGE}.{collection.service}", f"{PACKAGE}.{message}"
    list_response = f"{PACKAGE}.List{message}sResponse"
    fields = ("filter", "pageSize", "pageToken", "readMask")

    yield _row("POST", parent, SUBMITTER, handlers.create, body=collection.body,
               rpc=f"{rpc}/Create{message}", response=response)  # fmt: skip
    yield _row("GET", parent, VIEWER, handlers.list, query=fields,
               rpc=f"{rpc}/List{message}s", response=list_response)  # fmt: skip
    yield _row("GET", name, VIEWER, handlers.get, rpc=f"{rpc}/Get{message}", response=response)
    yield _row("DELETE", name, SUBMITTER, handlers.delete,
               rpc=f"{rpc}/Delete{message}", response=f"{LONG}.Operation")  # fmt: skip
    yield _row("POST", f"{name}:cancel", SUBMITTER, handlers.cancel, body="*",
               rpc=f"{rpc}/Cancel{message}", response=EMPTY)  # fmt: skip

    operation = f"{name}/operations/{{operation}}"
    yield _row("GET", f"{name}/operations", VIEWER, no_operations, query=OPERATIONS_QUERY)
    yield _row("GET", operation, VIEWER, no_operation)
    yield _row("DELETE", operation, VIEWER, no_operation)
    yield _row("POST", f"{operation}:cancel", VIEWER, no_operation)
    yield _row("POST", f"{operation}:wait", VIEWER, no_operation, query=("timeout",))


def _operations(handlers: Operations) -> Iterator[Method]:
    parent = f"{LOCATION}/operations"
    name = f"{parent}/{{operation}}"
    rpc, whole = f"{LONG}.Operations", f"{LONG}.Operation"
    yield _row("GET", name, VIEWER, handlers.get, rpc=f"{rpc}/GetOperation", response=whole)
    yield _row("GET", parent, VIEWER, no_operations, query=OPERATIONS_QUERY,
               rpc=f"{rpc}/ListOperations", response=f"{LONG}.ListOperationsResponse")  # fmt: skip
    yield _row("POST", f"{name}:wait", VIEWER, handlers.get, query=("timeout",),
               rpc=f"{rpc}/WaitOperation", response=whole)  # fmt: skip
    yield _row("POST", f"{name}:cancel", SUBMITTER, handlers.cancel,
               rpc=f"{rpc}/CancelOperation", response=EMPTY)  # fmt: skip
    yield _row("DELETE", name, SUBMITTER, handlers.delete,
               rpc=f"{rpc}/DeleteOperation", response=EMPTY)  # fmt: skip


def _models(handlers: ModelHandlers) -> Iterator[Method]:
    parent = f"{LOCATION}/models"
    name = f"{parent}/{{model}}"
    rpc, whole = f"{PACKAGE}.ModelService", f"{PACKAGE}.Model"
    fields = ("filter", "orderBy", "pageSize", "pageToken", "readMask")
    operation = f"{LONG}.Operation"
    yield _row("POST", f"{parent}:upload", SUBMITTER, handlers.upload, body="*",
               rpc=f"{rpc}/UploadModel", response=operation)  # fmt: skip
    yield _row("GET", parent, VIEWER, handlers.list, query=fields,
               rpc=f"{rpc}/ListModels", response=f"{PACKAGE}.ListModelsResponse")  # fmt: skip
    yield _row("GET", name, VIEWER, handlers.get, rpc=f"{rpc}/GetModel", response=whole)
    yield _row("DELETE", name, SUBMITTER, handlers.delete,
               rpc=f"{rpc}/DeleteModel", response=operation)  # fmt: skip
    versions = f"{PACKAGE}.ListModelVersionsResponse"
    yield _row("GET", f"{name}:listVersions", VIEWER, handlers.list_versions, query=fields,
               rpc=f"{rpc}/ListModelVersions", response=versions)  # fmt: skip


def _absent(collection: str) -> Iterator[Method]:
    parent = f"{LOCATION}/{collection}"
    absent = ABSENT[collection]
    name, refuse = f"{parent}/{{{absent.item}}}", none_of(collection)
    yield _row("POST", parent, VIEWER, refuse, query=absent.of_create)
    yield _row("GET", parent, VIEWER, refuse, query=absent.of_list)
    yield _row("GET", name, VIEWER, refuse, query=absent.of_get)
    if absent.is_deleted:
        yield _row("DELETE", name, VIEWER, refuse, query=absent.of_delete)
    if absent.is_patched:
        yield _row("PATCH", name, VIEWER, refuse, query=("updateMask",))


def _row(  # noqa: PLR0913  # the columns of the table
    verb: str,
    path: str,
    role: AccessRole,
    handle: Callable[[Call], Json],
    *,
    body: str = "",
    query: tuple[str, ...] = (),
    rpc: str = "",
    response: str = "",
) -> Method:
    """Return a row; Google names the request message after the rpc."""
    service, _, call = rpc.partition("/")
    request = f"{service.rpartition('.')[0]}.{call}Request" if rpc else ""
    return Method(
        verb=verb,
        path=path,
        role=role,
        handle=handle,
        rpc=rpc,
        request=request,
        response=response,
        body=body,
        query=query,
    )


def _beta(row: Method) -> Method:
    """Return the row in v1beta1, whose messages have the same bytes; operations have no version."""
    has_version = row.rpc.startswith(PACKAGE)
    rpc = row.rpc.replace(PACKAGE, f"{PACKAGE}beta1", 1) if has_version else ""
    return replace(row, path=row.path.replace("/v1/", "/v1beta1/", 1), rpc=rpc)
