"""Logs as people read them: gcloud logging read, google-cloud-logging, and streams that end."""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from conformance.client_scripts import run_script
from conformance.gcloud import needs_gcloud
from e2e.fleet import accounted

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PARENT = "/v1/projects/demo-proj/locations/us-central1"
CODE = """
import json
for n in range(3):
    print("line", n)
print("Epoch 1: LOSS 0.25, accuracy 0.9")
print(json.dumps({"severity": "WARNING", "message": "disk nearly full", "step": 1200}))
print(json.dumps({"severity": "ERROR", "message": "disk full", "step": 1300}))
"""


@pytest.fixture(scope="module")
def job(server):
    """The number of a job whose log has ended, six seconds ago at least.

    gcloud's streams leave out what is younger than five seconds.
    """
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": "1",
        "containerSpec": {"imageUri": "registry.test/p/img:1", "command": ["python", "-c", CODE]},
    }
    document = {"displayName": "spoke", "jobSpec": {"workerPoolSpecs": [pool]}}
    status, created = server.call("POST", f"{PARENT}/customJobs", document)
    assert status == 200, created
    wait_for_an_old_end(server, created["name"], "JOB_STATE_SUCCEEDED")
    return created["name"].rpartition("/")[2]


@pytest.fixture
def ml_job(server):
    """The same on AI Platform."""
    image = {"imageUri": "registry.test/p/img:1", "containerCommand": ["python", "-c", CODE]}
    training = {
        "region": "us-central1",
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "masterConfig": image,
    }
    document = {"jobId": "spoke", "trainingInput": training}
    status, created = server.call("POST", "/v1/projects/demo-proj/jobs", document)
    assert status == 200, created
    wait_for_an_old_end(server, "projects/demo-proj/jobs/spoke", "SUCCEEDED")
    return "spoke"


def wait_for_an_old_end(server, name, succeeded):
    """Wait until the last line of the log, which is the goodput, is old enough."""
    ended = server.wait_for(f"/v1/{name}", {succeeded, succeeded.replace("SUCCEEDED", "FAILED")})
    assert ended["state"] == succeeded, ended
    old = datetime.fromisoformat(accounted(server, name)["time"]) + timedelta(seconds=6)
    while datetime.now(UTC) < old:
        time.sleep(0.1)


@needs_gcloud
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("accuracy", ["Epoch 1: LOSS 0.25, accuracy 0.9"]),
        ('"disk FULL"', ["disk full"]),
        ("severity>=WARNING", ["disk full", "disk nearly full"]),
        ("severity=(ERROR OR CRITICAL)", ["disk full"]),
        ("jsonPayload.step>=1200 AND NOT nearly", ["disk full"]),
        ('textPayload=~"^line [12]$"', ["line 2", "line 1"]),
        ('log_id("workerpool0-0") disk -severity=ERROR', ["disk nearly full"]),
        ('timestamp<"2020-01-01"', []),
        ("resource.type=gce_instance", []),
    ],
)
def test_gcloud_logging_read_takes_what_people_type(gcloud, job, text, expected):
    done = gcloud(
        "logging", "read", f'resource.labels.job_id="{job}" AND ({text})', "--format=json"
    )
    messages = [entry["jsonPayload"]["message"] for entry in json.loads(done.ok().stdout)]
    assert messages == expected


@needs_gcloud
def test_gcloud_logging_read_needs_no_job_and_shows_why_a_filter_is_bad(real_gcloud, gcloud, job):
    done = real_gcloud("logging", "read", "severity>=ERROR disk", "--limit=1", "--format=json")
    (entry,) = json.loads(done.ok().stdout)
    assert entry["resource"]["labels"]["job_id"] == job
    refused = gcloud("logging", "read", "thud=1 severity>=ERROR")
    assert refused.code == 1
    assert "must be a field of a LogEntry (timestamp, severity" in refused.stderr


def test_google_cloud_logging_reads_by_rest_and_by_grpc(server, job):
    words = ("--rest", server.url, "--grpc", server.grpc, "--token", server.token, "--job", job)
    results_by_api = run_script(server, ".venv-gs", "logging_calls.py", *words)
    log = "projects/demo-proj/logs/workerpool0-0"
    for way, results in results_by_api.items():
        assert "must be a field of a LogEntry" in results.pop("refused"), way
        assert results == {
            "word": [["INFO", "Epoch 1: LOSS 0.25, accuracy 0.9", log]],
            "severity": [["WARNING", "disk nearly full", log], ["ERROR", "disk full", log]],
            "expression": [["INFO", f"line {n}", log] for n in range(3)],
        }, way


@needs_gcloud
def test_a_stream_of_an_ended_job_ends_after_the_fewest_polls_that_gcloud_makes(gcloud, job):
    """gcloud ends after two polls without lines; its first has to bring all of them."""
    assert count_polls(gcloud, "ai", "custom-jobs", "stream-logs", job) == 3


@needs_gcloud
@pytest.mark.full
def test_a_stream_of_ai_platform_ends_after_as_many(gcloud, ml_job):
    assert count_polls(gcloud, "ai-platform", "jobs", "stream-logs", ml_job) == 3


def count_polls(gcloud, *command):
    done = gcloud(*command, "--polling-interval=5", "--log-http")
    assert done.ok().stdout.count("accuracy 0.9") == 1
    lines = done.stderr.splitlines()
    return len([line for line in lines if "uri: " in line and "entries:list" in line])
