"""A job with reducers on a real server: warned at submit, summed up when it is over."""

import json

import pytest

from cli.conftest import CONFIG, ELSEWHERE, FINAL, PARENT
from cli.test_reduction_plan import REDUCTION_IMAGE, REPORTS
from server_process import ServerProcess

T4 = {"machineType": "n1-standard-4", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}
PLANNED = (
    "1 reducer of n1-highcpu-16 carries 32 Gbit/s, the workers 40: 2 would match them; with 1 the "
    "exchange is predicted at 1.40 times a ring, with 2 at 1.50, if the hosts have the network of "
    "the catalog."
)
CAME = (
    "Reduction: 1.43 times a ring of the same links; predicted 1.50 (4 reducers, 812 rounds, "
    "52 GB); predicted for the catalog's machines: 1.40."
)


@pytest.fixture(scope="module")
def emulating(tmp_path_factory):
    """A server that has no GPUs and gives jobs that ask for some their places all the same."""
    data = tmp_path_factory.mktemp("emulating")
    (data / "config.toml").write_text(CONFIG)
    server = ServerProcess(
        data, "--fleet-policy", "emulate", environ={"TRAINSHED_CACHE_DIR": str(data / "cache")}
    ).start()
    yield server
    server.stop()


@pytest.fixture
def client(trainshed, emulating, monkeypatch):
    for name in ELSEWHERE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRAINSHED_DATA_DIR", str(emulating.data_dir))
    return trainshed


def pool(machine, count, image, *code):
    container = {"imageUri": image, **({"command": ["python", "-c"], "args": code} if code else {})}
    return {"machineSpec": machine, "replicaCount": count, "containerSpec": container}


@pytest.fixture(scope="module")
def job(emulating):
    """The name of a job that has ended, whose primary has reported."""
    spec = {
        "workerPoolSpecs": [
            pool(T4, 1, "registry.test/a", REPORTS),
            pool(T4, 3, "registry.test/a", "pass"),
            pool({"machineType": "n1-highcpu-16"}, 1, REDUCTION_IMAGE),
        ]
    }
    document = {"displayName": "reduces", "jobSpec": spec}
    status, job = emulating.call("POST", f"/v1/{PARENT}/customJobs", document)
    assert status == 200, job
    ended = emulating.wait_for(f"/v1/{job['name']}", FINAL)
    assert ended["state"] == "JOB_STATE_SUCCEEDED", ended
    return job["name"]


def test_the_story_warns_first_and_sums_up_at_the_end(client, job):
    events = client("jobs", "events", job, "--format", "json").json
    by_kind = {event["kind"]: event for event in events}
    assert [event["kind"] for event in events][:2] == ["ACCEPTED", "REDUCTION_PLANNED"]
    assert by_kind["REDUCTION_PLANNED"]["message"] == PLANNED
    assert by_kind["REDUCTION"]["message"] == CAME
    assert by_kind["REDUCTION"]["data"]["planned"] == 1.4


def test_the_log_has_both_as_lines_of_the_service(client, job):
    words = ("ai", "custom-jobs", "stream-logs", job, "--format", "json")
    lines = [json.loads(line) for line in client(*words).out.splitlines()]
    severities = {line["message"]: line["severity"] for line in lines if line["task"] == "service"}
    assert severities[PLANNED] == "WARNING"
    assert severities[CAME] == "INFO"
    assert any(text.startswith("Workers and reducers are on one machine") for text in severities)


def test_explain_and_describe_have_it(client, job):
    assert CAME in client("jobs", "explain", job).out.splitlines()
    assert client("jobs", "explain", job, "--format", "json").json["reduction"] == CAME
    described = client("ai", "custom-jobs", "describe", job)
    assert described.code == 0
    assert CAME in described.err
