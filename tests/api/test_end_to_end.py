"""The edge over the real use cases and a real store; no controller, so jobs wait for ever."""

import re
import sys
import time
from contextlib import ExitStack

import grpc
import pytest

from api.grpc_calls import JOBS, grpc_client, status_of
from api.support import client
from trainshed.api.call import Routes
from trainshed.api.chain import ChainServices
from trainshed.api.handlers import (
    JobHandlers,
    LogEntries,
    ModelHandlers,
    Operations,
    TrainingPipelines,
)
from trainshed.api.not_here import absent_sentence
from trainshed.api.permissions import Permissions
from trainshed.api.probes import Probes
from trainshed.api.rest import make_app
from trainshed.api.table import Handlers, google_table
from trainshed.model.access import ALL_PROJECTS, AccessRole
from trainshed.model.resources import Node
from trainshed.service.auth.access import Access, digest_of
from trainshed.service.jobs.job_service import JobService, OperationService
from trainshed.service.jobs.models import ModelService
from trainshed.service.jobs.pipelines import PipelineService
from trainshed.service.jobs.submission import SubmitRules
from trainshed.service.log.pages import LogService
from trainshed.service.starts.images import Images
from trainshed.storage.log_files import JobLog
from trainshed.store.opening import open_store
from trainshed.store.records.access import Token
from trainshed.store.records.jobs import JobKind

TOKENS = {
    "demo": ("demo", AccessRole.SUBMITTER),
    "other": ("other", AccessRole.SUBMITTER),
    "admin": (ALL_PROJECTS, AccessRole.ADMIN),
}
OTHER = {"Authorization": "Bearer other"}
PARENT = "projects/demo/locations/us-central1"
IMAGE = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.1-13.py310:latest"
CUSTOM_TASK = "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml"


def ml_job(job_id, **fields):
    training = {
        "region": "us-central1",
        "scaleTier": "BASIC",
        "pythonModule": "trainer.task",
        "packageUris": ["gs://stage/trainer-0.1.tar.gz"],
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
    }
    return {"jobId": job_id, "trainingInput": training} | fields


POOL = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "replicaCount": "1",
    "pythonPackageSpec": {
        "executorImageUri": IMAGE,
        "packageUris": ["gs://stage/trainer-0.1.tar.gz"],
        "pythonModule": "trainer.task",
    },
}
#: The same as the SDK puts it into a pipeline.
SNAKE_POOL = {
    "machine_spec": {"machine_type": "n1-standard-4"},
    "replica_count": 1.0,
    "python_package_spec": {
        "executor_image_uri": IMAGE,
        "package_uris": ["gs://stage/trainer-0.1.tar.gz"],
        "python_module": "trainer.task",
    },
}


def custom_job(name="a", machine_type="n1-standard-4"):
    pool = {**POOL, "machineSpec": {"machineType": machine_type}}
    return {"displayName": name, "jobSpec": {"workerPoolSpecs": [pool]}}


@pytest.fixture(scope="module")
def edges(tmp_path_factory):
    """The HTTP client and the gRPC client of one server."""
    folder = tmp_path_factory.mktemp("data")
    with ExitStack() as held:
        store = open_store(f"sqlite:///{folder}/trainshed.db")
        held.callback(store.close)
        store.see_nodes("test", [Node(name="n1", vcpus=64, memory_gb=512.0)])
        for name, (project, role) in TOKENS.items():
            stored = Token(
                token_id=name, digest=digest_of(name), name=f"{name}-token", project=project,
                role=role, create_time=store.nodes()[0].seen_time,
            )  # fmt: skip
            store.add_token(stored)
        store.add_bucket("stage", "demo")
        rules = SubmitRules(images=Images((), (), sys.executable))
        jobs = JobService(store, rules, lambda: None)
        permissions = Permissions(store.project)
        rows = google_table(
            Handlers(
                ml_jobs=JobHandlers(JobKind.ML_JOB, jobs),
                custom_jobs=JobHandlers(JobKind.CUSTOM_JOB, jobs),
                tuning_jobs=JobHandlers(JobKind.TUNING_JOB, jobs),
                pipelines=TrainingPipelines(PipelineService(store, rules, jobs, lambda: None)),
                models=ModelHandlers(ModelService(store)),
                operations=Operations(OperationService(store)),
                logs=LogEntries(LogService(store, JobLog(folder / "jobs")), permissions),
            )
        )
        access = Access(store, anonymous=False, clock=time.time)
        around = ChainServices(
            routes=Routes(rows, absent_sentence),
            permissions=permissions,
            recognise=access.caller,
            allowed_hosts=("127.0.0.1",),
            allowed_origins=(),
            body_bytes_max=1 << 20,
        )
        app = make_app(
            around,
            raw=(),
            native=None,
            exchange=access.exchange,
            probes=Probes(lambda: store.waiting_count() >= 0, lambda: True),
        )
        rest = held.enter_context(client(app))
        rpc = held.enter_context(grpc_client(rows, around, folder))
        rest.rows = rows
        rest.number = store.project("demo")[1]
        yield rest, rpc


@pytest.fixture
def rest(edges):
    return edges[0]


@pytest.fixture
def rpc(edges):
    return edges[1]


def good(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()


def error(answer):
    body = answer.json()["error"]
    assert answer.status_code == body["code"]
    return body["code"], body["status"], body["message"]


def test_the_server_is_healthy_and_ready(rest):
    assert [rest.get(path).text for path in ("/healthz", "/readyz")] == ["ok", "ok"]


# ---- ml v1 ----


def test_an_ml_job_from_create_to_cancel(rest):
    created = good(rest.post("/v1/projects/demo/jobs?alt=json", json=ml_job("life")))
    assert (created["jobId"], created["state"]) == ("life", "QUEUED")
    assert created["trainingInput"]["region"] == "us-central1"
    job = good(rest.get("/v1/projects/demo/jobs/life"))
    assert job["createTime"] == created["createTime"]
    patch = {"labels": {"team": "a"}, "etag": job["etag"]}
    path = "/v1/projects/demo/jobs/life?updateMask=labels"
    assert good(rest.patch(path, json=patch))["labels"] == {"team": "a"}
    assert error(rest.patch(path, json=patch))[:2] == (409, "ABORTED")
    assert good(rest.post("/v1/projects/demo/jobs/life:cancel", json={})) == {}
    assert good(rest.post("/v1/projects/demo/jobs/life:cancel")) == {}
    job = good(rest.get("/v1/projects/demo/jobs/life"))
    assert job["state"] == "CANCELLED"
    assert job["endTime"]
    assert job["labels"] == {"team": "a"}


def test_the_number_of_a_project_is_the_project(rest):
    good(rest.post(f"/v1/projects/{rest.number}/jobs", json=ml_job("by_number")))
    assert good(rest.get("/v1/projects/demo/jobs/by_number"))["jobId"] == "by_number"


def test_a_list_in_pages_is_the_list(rest):
    for number in range(5):
        good(rest.post("/v1/projects/demo/jobs", json=ml_job(f"page_{number}")))
    job_ids, token = [], ""
    while True:
        query = {"filter": "jobId:page_*", "pageSize": 2, "pageToken": token}
        answer = good(rest.get("/v1/projects/demo/jobs", params=query))
        job_ids += [job["jobId"] for job in answer["jobs"]]
        token = answer.get("nextPageToken", "")
        if not token:
            break
    assert job_ids == [f"page_{number}" for number in reversed(range(5))]


def test_an_empty_list_is_an_empty_object(rest):
    assert good(rest.get("/v1/projects/demo/jobs", params={"filter": "jobId:none*"})) == {}


def test_one_job_id_twice_is_a_conflict_and_a_repetition_is_not(rest):
    headers = {"User-Agent": "google-cloud-sdk gcloud/528.0.0 invocation-id/abc123"}
    first = good(rest.post("/v1/projects/demo/jobs", json=ml_job("twice"), headers=headers))
    again = good(rest.post("/v1/projects/demo/jobs", json=ml_job("twice"), headers=headers))
    assert again["createTime"] == first["createTime"]
    assert error(rest.post("/v1/projects/demo/jobs", json=ml_job("twice"))) == (
        409,
        "ALREADY_EXISTS",
        "projects/demo/jobs/twice already exists",
    )


def test_a_wrong_job_is_told_field_by_field(rest):
    document = ml_job("wrong")
    document["trainingInput"] |= {"maxTrialsX": 8, "workerCount": "many"}
    answer = rest.post("/v1/projects/demo/jobs", json=document)
    assert error(answer)[:2] == (400, "INVALID_ARGUMENT")
    [detail] = answer.json()["error"]["details"]
    fields = {violation["field"] for violation in detail["fieldViolations"]}
    assert {"trainingInput.maxTrialsX", "trainingInput.workerCount"} <= fields


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/v1/projects/demo/jobs/life:getIamPolicy?options.requestedPolicyVersion=1"),
        ("POST", "/v1/projects/demo/jobs/life:setIamPolicy"),
        ("POST", "/v1/projects/demo/jobs/life:testIamPermissions"),
        ("POST", "/v1/projects/demo/models"),
        ("POST", f"/v1/{PARENT}/batchPredictionJobs"),
        ("POST", f"/v1/{PARENT}/endpoints"),
        ("POST", f"/v1beta1/{PARENT}/persistentResources?persistentResourceId=p"),
        ("POST", f"/v1/{PARENT}/pipelineJobs?pipelineJobId=p"),
        ("POST", f"/v1/{PARENT}/pipelineJobs/p:cancel"),
        ("GET", f"/v1/{PARENT}/metadataStores/default"),
        ("POST", f"/v1beta1/{PARENT}/metadataStores/default/contexts?contextId=c"),
        ("POST", f"/v1/{PARENT}/datasets"),
        ("POST", f"/v1/{PARENT}/datasets/1:import"),
        ("POST", f"/v1/{PARENT}/studies"),
        ("POST", f"/v1/{PARENT}/studies/1/trials:suggest"),
        ("GET", f"/v1/{PARENT}/schedules?pageSize=1"),
        ("GET", f"/v1/{PARENT}/schedules/1:pause"),
        ("GET", f"/v1/{PARENT}/featurestores/f/entityTypes"),
        ("POST", f"/v1/{PARENT}/tensorboards/1/experiments"),
        ("POST", f"/v1/{PARENT}/tensorboards"),
        ("GET", f"/v1beta1/{PARENT}/tensorboards?pageSize=1"),
    ],
)
def test_what_is_not_here_says_so(rest, verb, path):
    assert error(rest.request(verb, path))[:2] == (400, "UNIMPLEMENTED")


# ---- aiplatform v1 ----


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_custom_job_from_create_to_delete(rest, version):
    query = "?%24alt=json%3Benum-encoding%3Dint"
    created = good(rest.post(f"/{version}/{PARENT}/customJobs{query}", json=custom_job("life")))
    name = created["name"]
    assert name.startswith(f"{PARENT}/customJobs/")
    assert created["state"] == "JOB_STATE_QUEUED"
    assert good(rest.get(f"/{version}/{name}"))["jobSpec"] == created["jobSpec"]
    running = error(rest.delete(f"/{version}/{name}"))
    assert running[:2] == (400, "FAILED_PRECONDITION")
    assert good(rest.post(f"/{version}/{name}:cancel", json={})) == {}
    job = good(rest.get(f"/{version}/{name}"))
    assert (job["state"], job["error"]["code"]) == ("JOB_STATE_CANCELLED", 1)
    operation = good(rest.delete(f"/{version}/{name}"))
    assert operation["done"] is True
    assert operation["response"] == {"@type": "type.googleapis.com/google.protobuf.Empty"}
    for root in ("ui", "v1", "v1beta1"):
        assert good(rest.get(f"/{root}/{operation['name']}")) == operation
    assert error(rest.get(f"/{version}/{name}"))[:2] == (404, "NOT_FOUND")


def test_a_list_has_the_fields_of_its_mask(rest):
    good(rest.post(f"/v1/{PARENT}/customJobs", json=custom_job("masked")))
    query = {"filter": 'display_name="masked"', "readMask": "name,display_name,jobSpec.scheduling"}
    [job] = good(rest.get(f"/v1/{PARENT}/customJobs", params=query))["customJobs"]
    assert set(job) <= {"name", "displayName", "jobSpec"}
    assert "workerPoolSpecs" not in job.get("jobSpec", {})
    query["readMask"] = "colour"
    assert (
        "read_mask: CustomJob has no field colour"
        in error(rest.get(f"/v1/{PARENT}/customJobs", params=query))[2]
    )


@pytest.mark.parametrize("size", ["many", "-1", "1.5", "99999999999", "\u0663"])
def test_a_page_of_no_size_is_refused(rest, size):
    answer = rest.get(f"/v1/{PARENT}/customJobs", params={"pageSize": size})
    assert error(answer)[:2] == (400, "INVALID_ARGUMENT")
    assert "page_size" in error(answer)[2]


def test_a_tuning_job_makes_trials_and_is_cancelled(rest):
    document = {
        "displayName": "t",
        "maxTrialCount": 2,
        "parallelTrialCount": 1,
        "studySpec": {
            "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
            "parameters": [
                {"parameterId": "lr", "doubleValueSpec": {"minValue": 0.1, "maxValue": 0.2}}
            ],
        },
        "trialJobSpec": {"workerPoolSpecs": [POOL]},
    }
    job = good(rest.post(f"/v1/{PARENT}/hyperparameterTuningJobs", json=document))
    assert job["state"] == "JOB_STATE_PENDING"
    (listed,) = good(rest.get(f"/v1/{PARENT}/hyperparameterTuningJobs"))["hyperparameterTuningJobs"]
    assert listed["name"] == job["name"]
    good(rest.post(f"/v1/{job['name']}:cancel", json={}))
    assert good(rest.get(f"/v1/{job['name']}"))["state"].startswith("JOB_STATE_CANCEL")


def test_a_pipeline_has_a_real_job(rest):
    inputs = {"worker_pool_specs": [SNAKE_POOL], "enable_web_access": False}
    document = {
        "displayName": "p",
        "trainingTaskDefinition": CUSTOM_TASK,
        "trainingTaskInputs": inputs,
    }
    created = good(rest.post(f"/v1/{PARENT}/trainingPipelines", json=document))
    assert created["trainingTaskInputs"] == inputs
    assert created["state"] == "PIPELINE_STATE_QUEUED"
    child = created["trainingTaskMetadata"]["backingCustomJob"]
    assert good(rest.get(f"/v1/{child}"))["state"] == "JOB_STATE_QUEUED"
    names = [
        p["name"] for p in good(rest.get(f"/v1/{PARENT}/trainingPipelines"))["trainingPipelines"]
    ]
    assert created["name"] in names
    assert good(rest.post(f"/v1/{created['name']}:cancel", json={})) == {}
    cancelled = good(rest.get(f"/v1/{created['name']}"))
    assert (cancelled["state"], cancelled["error"]["code"]) == ("PIPELINE_STATE_CANCELLED", 1)
    assert good(rest.delete(f"/v1/{created['name']}"))["done"] is True
    assert error(rest.get(f"/v1/{created['name']}"))[:2] == (404, "NOT_FOUND")


@pytest.mark.parametrize("path", ["models/555%401", "operations/1", "customJobs/1/operations/2"])
def test_names_of_nothing_are_not_found(rest, path):
    assert error(rest.get(f"/v1/{PARENT}/{path}"))[:2] == (404, "NOT_FOUND")


# ---- logs ----


def test_the_log_of_a_job_is_there(rest):
    good(rest.post("/v1/projects/demo/jobs", json=ml_job("logged")))
    good(rest.post("/v1/projects/demo/jobs/logged:cancel"))
    document = {
        "filter": '(resource.type="ml_job" OR resource.type="cloudml_job") AND '
        'resource.labels.job_id="logged" AND timestamp>="1970-01-01T01:00:00.000000000Z"',
        "orderBy": "timestamp asc",
        "pageSize": 1000,
        "resourceNames": [f"projects/{rest.number}"],
    }
    entries = good(rest.post("/v2/entries:list?alt=json", json=document))["entries"]
    assert {entry["resource"]["labels"]["job_id"] for entry in entries} == {"logged"}
    foreign = {**document, "resourceNames": ["projects/other"]}
    assert error(rest.post("/v2/entries:list", json=foreign))[:2] == (403, "PERMISSION_DENIED")


# ---- whose it is ----


def test_a_projects_things_are_invisible_to_others(rest):
    """Every row, as a stranger calls it: told what is told of a project that never was."""
    job = good(rest.post(f"/v1/{PARENT}/customJobs", json=custom_job("private")))["name"]
    number = job.rpartition("/")[2]
    rows = [row for row in rest.rows if "{project}" in row.path]
    assert len(rows) > 50
    for row in rows:
        path = row.path.replace("{location}", "us-central1")
        path = re.sub(r"\{(?!project)\w+\}", number, path)
        texts = []
        for project in ("demo", "never-was"):
            answer = rest.request(row.verb, path.replace("{project}", project), headers=OTHER)
            assert answer.status_code == 403, path
            texts.append(answer.text.replace(project, "PROJECT"))
        assert texts[0] == texts[1], path


def test_a_job_is_not_found_under_another_project(rest):
    job = good(rest.post(f"/v1/{PARENT}/customJobs", json=custom_job("mine")))["name"]
    moved = job.replace("projects/demo", "projects/other")
    assert error(rest.get(f"/v1/{moved}", headers=OTHER))[:2] == (404, "NOT_FOUND")
    assert error(rest.post(f"/v1/{moved}:cancel", headers=OTHER))[:2] == (404, "NOT_FOUND")
    assert good(rest.get("/v1/projects/other/jobs", headers=OTHER)) == {}


# ---- gRPC ----


def test_grpc_and_rest_see_one_job(rest, rpc):
    created = rpc.call(
        f"{JOBS}/CreateCustomJob", {"parent": PARENT, "customJob": custom_job("both")}
    )
    name = created["name"]
    assert created["state"] == "JOB_STATE_QUEUED"
    assert good(rest.get(f"/v1/{name}"))["displayName"] == "both"
    request = {"parent": PARENT, "filter": 'display_name="both"', "readMask": "name"}
    assert rpc.call(f"{JOBS}/ListCustomJobs", request) == {"customJobs": [{"name": name}]}
    assert rpc.call(f"{JOBS}/CancelCustomJob", {"name": name}) == {}
    job = rpc.call(f"{JOBS}/GetCustomJob", {"name": name})
    assert (job["state"], job["error"]["code"]) == ("JOB_STATE_CANCELLED", 1)
    operation = rpc.call(f"{JOBS}/DeleteCustomJob", {"name": name})
    again = {"name": operation["name"]}
    assert rpc.call("google.longrunning.Operations/GetOperation", again) == operation
    with pytest.raises(grpc.RpcError) as error:
        rpc.call(f"{JOBS}/GetCustomJob", {"name": name})
    assert error.value.code() is grpc.StatusCode.NOT_FOUND


def test_grpc_tells_faults_in_its_senders_spelling(rpc):
    document = custom_job("wrong", machine_type="n1-huge")
    with pytest.raises(grpc.RpcError) as error:
        rpc.call(f"{JOBS}/CreateCustomJob", {"parent": PARENT, "customJob": document})
    [detail] = status_of(error.value)["details"]
    assert [violation["field"] for violation in detail["fieldViolations"]] == [
        "job_spec.worker_pool_specs[0].machine_spec.machine_type"
    ]
