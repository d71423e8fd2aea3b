"""Who may call what: one line a route, written down apart from the tables that serve them.

A line is a verb, a path, and the rule by which callers are let in.  ``{aiplatform}`` stands for
both versions of that API.  The words of the rules:

- open: nobody is asked who he is;
- known: everybody who is recognised, whatever his project;
- signed: the same, and whoever has no credentials is told to sign in;
- signing: the same, and whoever has no credentials;
- administrator: an administrator of all projects;
- overseer: a viewer, or more, of all projects;
- viewer, submitter: that role in the project of the path;
- asking: that role somewhere, then viewer in the project that the document names;
- bucket viewer, bucket submitter: that role in the project of the bucket in the path, and for
  whoever has less than viewer there the bucket does not exist;
- listing viewer, listing submitter: that role in the project of the query.
"""

import re

GOOGLE = """
POST   /v1/projects/{project}/jobs                            submitter
GET    /v1/projects/{project}/jobs                            viewer
GET    /v1/projects/{project}/jobs/{job}                      viewer
POST   /v1/projects/{project}/jobs/{job}:cancel               submitter
PATCH  /v1/projects/{project}/jobs/{job}                      submitter
GET    /v1/projects/{project}/jobs/{job}:getIamPolicy         viewer
POST   /v1/projects/{project}/jobs/{job}:setIamPolicy         viewer
POST   /v1/projects/{project}/jobs/{job}:testIamPermissions   viewer
POST   /v1/projects/{project}/models                          viewer
GET    /v1/projects/{project}/models                          viewer
GET    /v1/projects/{project}/models/{model}                  viewer
POST   /v2/entries:list                                       asking
POST   /{aiplatform}/{location}/models:upload                 submitter
GET    /{aiplatform}/{location}/models                        viewer
GET    /{aiplatform}/{location}/models/{model}                viewer
DELETE /{aiplatform}/{location}/models/{model}                submitter
GET    /{aiplatform}/{location}/models/{model}:listVersions   viewer
"""
#: What is not here refuses whoever may look.
KEPT = """
POST   /{aiplatform}/{location}/{collection}                  viewer
GET    /{aiplatform}/{location}/{collection}                  viewer
GET    /{aiplatform}/{location}/{collection}/{id}             viewer
"""
ABSENT = f"""{KEPT}\
DELETE /{{aiplatform}}/{{location}}/{{collection}}/{{id}}             viewer
"""
PATCHED = """\
PATCH  /{aiplatform}/{location}/{collection}/{id}             viewer
"""
OPERATIONS = """
GET    /{version}/{location}/operations                       viewer
GET    /{version}/{location}/operations/{operation}           viewer
POST   /{version}/{location}/operations/{operation}:wait      viewer
POST   /{version}/{location}/operations/{operation}:cancel    submitter
DELETE /{version}/{location}/operations/{operation}           submitter
"""
COLLECTION = """
POST   /{aiplatform}/{location}/{collection}                  submitter
GET    /{aiplatform}/{location}/{collection}                  viewer
GET    /{aiplatform}/{location}/{collection}/{id}             viewer
DELETE /{aiplatform}/{location}/{collection}/{id}             submitter
POST   /{aiplatform}/{location}/{collection}/{id}:cancel      submitter
GET    /{aiplatform}/{location}/{collection}/{id}/operations  viewer
GET    /{aiplatform}/{location}/{collection}/{id}/operations/{operation}          viewer
DELETE /{aiplatform}/{location}/{collection}/{id}/operations/{operation}          viewer
POST   /{aiplatform}/{location}/{collection}/{id}/operations/{operation}:cancel   viewer
POST   /{aiplatform}/{location}/{collection}/{id}/operations/{operation}:wait     viewer
"""
STORAGE = """
GET    /storage/v1/b                                          listing viewer
POST   /storage/v1/b                                          listing submitter
GET    /storage/v1/b/{bucket}                                 bucket viewer
DELETE /storage/v1/b/{bucket}                                 bucket submitter
PATCH  /storage/v1/b/{bucket}                                 bucket submitter
PUT    /storage/v1/b/{bucket}                                 bucket submitter
GET    /storage/v1/b/{bucket}/storageLayout                   bucket viewer
GET    /storage/v1/b/{bucket}/managedFolders                  bucket viewer
POST   /storage/v1/b/{bucket}/managedFolders                  bucket submitter
GET    /storage/v1/b/{bucket}/managedFolders/{name:path}      bucket viewer
DELETE /storage/v1/b/{bucket}/managedFolders/{name:path}      bucket submitter
GET    /storage/v1/b/{bucket}/folders                         bucket viewer
POST   /storage/v1/b/{bucket}/folders                         bucket submitter
GET    /storage/v1/b/{bucket}/o                               bucket viewer
GET    /storage/v1/b/{bucket}/o/{name:path}                   bucket viewer
PATCH  /storage/v1/b/{bucket}/o/{name:path}                   bucket submitter
PUT    /storage/v1/b/{bucket}/o/{name:path}                   bucket submitter
DELETE /storage/v1/b/{bucket}/o/{name:path}                   bucket submitter
POST   /storage/v1/b/{bucket}/o/{name:path}                   bucket submitter
GET    /download/storage/v1/b/{bucket}/o/{name:path}          bucket viewer
POST   /upload/storage/v1/b/{bucket}/o                        bucket submitter
PUT    /upload/storage/v1/b/{bucket}/o                        bucket submitter
DELETE /upload/storage/v1/b/{bucket}/o                        bucket submitter
POST   /resumable/upload/storage/v1/b/{bucket}/o              bucket submitter
PUT    /resumable/upload/storage/v1/b/{bucket}/o              bucket submitter
DELETE /resumable/upload/storage/v1/b/{bucket}/o              bucket submitter
"""
NATIVE = """
GET    /openapi.json                                          known
GET    /nodes                                                 known
GET    /alerts                                                known
POST   /nodes/{node:path}:drain                               administrator
POST   /nodes/{node:path}:maintain                            administrator
POST   /nodes/{node:path}:resume                              administrator
POST   /attempts/{uid}/{attempt}:fence                        administrator
GET    /metrics                                               overseer
GET    /metrics/jobs                                          overseer
GET    /tokens                                                administrator
POST   /tokens                                                administrator
DELETE /tokens/{token}                                        administrator
GET    /keys                                                  administrator
POST   /keys                                                  administrator
DELETE /keys/{key}                                            administrator
GET    /projects                                              known
GET    /usage                                                 known
GET    /projects/{project}/jobs                               viewer
POST   /projects/{project}/jobs                               submitter
POST   /projects/{project}/jobs:cancel                        submitter
POST   /projects/{project}/jobs:check                         submitter
GET    /projects/{project}/jobs/{job}                         viewer
DELETE /projects/{project}/jobs/{job}                         submitter
POST   /projects/{project}/jobs/{job}:cancel                  submitter
POST   /projects/{project}/jobs/{job}:label                   submitter
POST   /projects/{project}/jobs/{job}:resume                  submitter
GET    /projects/{project}/jobs/{job}/document                viewer
GET    /projects/{project}/jobs/{job}/explain                 viewer
GET    /projects/{project}/jobs/{job}/goodput                 viewer
GET    /projects/{project}/jobs/{job}/manifest                viewer
POST   /projects/{project}/jobs:dryRun                        submitter
POST   /projects/{project}/jobs:createStudy                   submitter
GET    /projects/{project}/jobs/{job}/events                  viewer
GET    /projects/{project}/jobs/{job}/trials                  viewer
GET    /projects/{project}/jobs/{job}/trials:curves           viewer
GET    /projects/{project}/jobs/{job}/study                   viewer
GET    /projects/{project}/jobs/{job}/study:importances       viewer
GET    /projects/{project}/jobs/{job}/usage                   viewer
GET    /projects/{project}/jobs/{job}/scalars                 viewer
GET    /projects/{project}/progress                           viewer
GET    /projects/{project}/jobs/{job}/logs                    viewer
GET    /projects/{project}/jobs/{job}/logs:window             viewer
GET    /projects/{project}/jobs/{job}/logs:search             viewer
GET    /projects/{project}/jobs/{job}/logs:download           viewer
GET    /projects/{project}/quotas                             viewer
GET    /projects/{project}/outcomes                           viewer
GET    /projects/{project}/calibrations                       viewer
GET    /projects/{project}/calibrations/{key}                 viewer
POST   /projects/{project}/bucketTokens                       viewer
POST   /projects/{project}/bucketTokens/{token}:renew         viewer
POST   /buckets/{bucket}:adopt                                 administrator
GET    /stream                                                known
GET    /audit                                                 administrator
GET    /signin                                                signed
POST   /signin                                                signing
DELETE /signin                                                signing
POST   /signin:code                                           known
POST   /downloads                                             known
"""
OPEN = """
GET    /                                                      open
GET    /healthz                                               open
GET    /readyz                                                open
GET    /metrics                                               overseer
GET    /metrics/jobs                                          overseer
GET    /console                                               open
GET    /console/static/{name}                                 open
GET    /console/{path:path}                                   open
POST   /token                                                 open
"""
COLLECTIONS = {
    "customJobs": "job",
    "hyperparameterTuningJobs": "job",
    "trainingPipelines": "pipeline",
}
NOT_HERE = {
    "batchPredictionJobs": ("batch_prediction_job", ABSENT),
    "dataLabelingJobs": ("data_labeling_job", ABSENT),
    "datasets": ("dataset", ABSENT + PATCHED),
    "deploymentResourcePools": ("deployment_resource_pool", ABSENT + PATCHED),
    "endpoints": ("endpoint", ABSENT + PATCHED),
    "featureGroups": ("feature_group", ABSENT + PATCHED),
    "featureOnlineStores": ("feature_online_store", ABSENT + PATCHED),
    "featurestores": ("featurestore", ABSENT + PATCHED),
    "indexEndpoints": ("index_endpoint", ABSENT + PATCHED),
    "indexes": ("index", ABSENT + PATCHED),
    "metadataStores": ("metadata_store", ABSENT),
    "modelDeploymentMonitoringJobs": ("model_deployment_monitoring_job", ABSENT + PATCHED),
    "nasJobs": ("nas_job", ABSENT),
    "notebookExecutionJobs": ("notebook_execution_job", ABSENT),
    "persistentResources": ("persistent_resource", ABSENT + PATCHED),
    "pipelineJobs": ("pipeline_job", ABSENT),
    "schedules": ("schedule", ABSENT + PATCHED),
    "studies": ("study", ABSENT),
    "tensorboards": ("tensorboard", ABSENT + PATCHED),
    "tuningJobs": ("tuning_job", KEPT),
}
LOCATION = "projects/{project}/locations/{location}"


def lines(text, **words):
    """((verb, path), rule) of each line, with some of its braces filled in."""
    for line in text.strip().splitlines():
        verb, path, *rule = line.split()
        for name, word in words.items():
            path = path.replace(f"{{{name}}}", word)
        yield (verb, path), " ".join(rule)


def aiplatform(text, **words):
    for version in ("v1", "v1beta1"):
        yield from lines(text, aiplatform=version, location=LOCATION, **words)


def rules():
    """The rule of every (verb, path)."""
    rules = dict(lines(OPEN)) | dict(lines(STORAGE)) | dict(aiplatform(GOOGLE))
    for version in ("v1", "v1beta1", "ui"):
        rules |= dict(lines(OPERATIONS, version=version, location=LOCATION))
    for collection, item in COLLECTIONS.items():
        rules |= dict(aiplatform(COLLECTION, collection=collection, id=f"{{{item}}}"))
    for collection, (item, text) in NOT_HERE.items():
        rules |= dict(aiplatform(text, collection=collection, id=f"{{{item}}}"))
    in_path = {(verb, f"/as/{{token}}{path}"): rule for (verb, path), rule in lines(STORAGE)}
    native = {(verb, f"/trainshed/v1{path}"): rule for (verb, path), rule in lines(NATIVE)}
    return rules | in_path | native


def served(http, table, native):
    """Every (verb, path) that an application answers, taken from the application itself."""
    yield from ((row.verb, row.path) for row in table)
    below = {"/trainshed/v1": native.routes}
    for route in http.routes:
        if route.path == "/as/{token}":
            below[route.path] = route.app.app.routes
        if route.path not in GOOGLES_MOUNTS:
            yield from listed(below.get(route.path, [route]), route.path)


def listed(routes, prefix):
    for route in routes:
        if hasattr(route, "original_router"):  # as FastAPI keeps what an application includes
            yield from listed(route.original_router.routes, prefix)
            continue
        for verb in (route.methods or {"GET"}) - {"HEAD"}:
            yield verb, route.path if route.path == prefix else f"{prefix}{route.path}"


#: Where the rows of the table are mounted.
GOOGLES_MOUNTS = {"/v1", "/v1beta1", "/v2", "/ui"}


def filled(path, names):
    return re.sub(r"\{(\w+)(?::path)?\}", lambda match: names[match[1]], path)
