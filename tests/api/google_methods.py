"""Prints, as JSON, what Google's installed clients call; runs in their own interpreter.

``rest``: [method, verb, path, query parameters] from the discovery documents; ``http``: [verb,
path, body] from the generated transports; ``grpc``: full gRPC names with their messages; ``beta``:
fields of v1 that have other bytes in v1beta1, of all messages that those calls send or get.
"""

import importlib
import json
import re
import sys
from importlib.resources import files

COLLECTIONS = {
    "ml": r"projects\.(jobs\.\w+|models\.(create|list|get))",
    "aiplatform": (
        r"projects\.locations\."
        r"((customJobs|hyperparameterTuningJobs|trainingPipelines)(\.operations)?\.\w+"
        r"|operations\.\w+|models\.(upload|list|get|delete|listVersions)"
        r"|(batchPredictionJobs|dataLabelingJobs|datasets|deploymentResourcePools|endpoints"
        r"|featureGroups|featureOnlineStores|featurestores|indexEndpoints|indexes|metadataStores"
        r"|modelDeploymentMonitoringJobs|nasJobs|notebookExecutionJobs|persistentResources"
        r"|pipelineJobs|schedules|studies|tensorboards|tuningJobs)"
        r"\.(create|list|get|delete|patch))"
    ),
}
SERVICES = {
    "job_service": "JobService",
    "model_service": "ModelService",
    "pipeline_service": "PipelineService",
}
CALLS = re.compile(
    r"_?(Create|Get|List|Cancel|Delete)(CustomJob|HyperparameterTuningJob|TrainingPipeline)s?"
    r"|_?(UploadModel|GetModel|ListModels|ListModelVersions|DeleteModel)"
)
#: Messages of other packages, which have one version.
FOREIGN = {
    "Operation",
    "Empty",
    "GetOperationRequest",
    "ListOperationsRequest",
    "ListOperationsResponse",
}
OPERATIONS = re.compile(r"_Base(Get|List|Cancel|Delete|Wait)Operations?")
OPERATION_NAME = re.compile(r"/\{name=projects/\*/locations/\*(/operations/\*)?\}")


def discovered(api, pattern):
    folder = files("googleapiclient").joinpath("discovery_cache", "documents", f"{api}.v1.json")
    document = json.loads(folder.read_text("utf-8"))
    for name, method in walk(document, ""):
        if re.fullmatch(pattern, name):
            query = [p for p, info in method.get("parameters", {}).items() if is_query(info)]
            yield [name, method["httpMethod"], "/" + method["flatPath"], sorted(query)]


def is_query(parameter):
    return parameter["location"] == "query"


def walk(resource, prefix):
    for name, method in resource.get("methods", {}).items():
        yield prefix + name, method
    for name, below in resource.get("resources", {}).items():
        yield from walk(below, f"{prefix}{name}.")


def transported(version, module, service):
    path = f"google.cloud.aiplatform_{version}.services.{module}.transports.rest_base"
    base = getattr(importlib.import_module(path), f"_Base{service}RestTransport")
    for name in dir(base):
        call = CALLS.fullmatch(name.removeprefix("_Base"))
        if call:
            yield from (row(option) for option in getattr(base, name)._get_http_options())
        elif OPERATIONS.fullmatch(name):
            for option in getattr(base, name)._get_http_options():
                if OPERATION_NAME.search(option["uri"]) and "agents" not in option["uri"]:
                    yield row(option)


def row(option):
    return [option["method"].upper(), option["uri"], option.get("body", "")]


def spoken(version, module):
    """The names as the generated gRPC transport has them in its source."""
    path = f"google.cloud.aiplatform_{version}.services.{module}.transports.grpc"
    source = importlib.import_module(path).__loader__.get_source(path)
    call = re.compile(
        r'"/(google\.[\w.]+/\w+)",\s+request_serializer=([\w.]+)\.(?:serialize|SerializeToString),'
        r"\s+response_deserializer=([\w.]+)\.(?:deserialize|FromString),"
    )
    for name, request, response in call.findall(source):
        if CALLS.fullmatch(name.rpartition("/")[2]) or "longrunning" in name:
            yield [name, request.rpartition(".")[2], response.rpartition(".")[2]]


def differing(name, visited):
    """[message, field] wherever the same field has other bytes in v1beta1."""
    v1, beta = (
        getattr(importlib.import_module(f"google.cloud.aiplatform_{version}.types"), name)
        for version in ("v1", "v1beta1")
    )
    yield from differing_fields(v1.pb().DESCRIPTOR, beta.pb().DESCRIPTOR, visited)


def differing_fields(v1, beta, visited):
    if v1.full_name in visited:
        return
    visited.add(v1.full_name)
    for field in v1.fields:
        other = beta.fields_by_name.get(field.name)
        if other is None or bytes_of(field) != bytes_of(other):
            yield [v1.full_name, field.name]
        elif field.message_type and field.message_type.full_name.startswith("google.cloud"):
            yield from differing_fields(field.message_type, other.message_type, visited)


def bytes_of(field):
    enum = field.enum_type
    return field.number, field.type, enum and {value.name: value.number for value in enum.values}


def main():
    methods = {"rest": [], "http": [], "grpc": [], "beta": []}
    for api, pattern in COLLECTIONS.items():
        methods["rest"] += discovered(api, pattern)
    for version in ("v1", "v1beta1"):
        for module, service in SERVICES.items():
            methods["http"] += transported(version, module, service)
            methods["grpc"] += spoken(version, module)
    visited = set()
    calls = {message for _, *both in methods["grpc"] for message in both} - FOREIGN
    for message in sorted(calls):
        methods["beta"] += differing(message, visited)
    sys.stdout.write(json.dumps(methods))


main()
