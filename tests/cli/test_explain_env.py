import json
from pathlib import Path

import pytest

from golden import check_golden
from trainshed.observability.spans import parse_traceparent

GOLDEN = Path(__file__).parent.parent / "golden/cli"
ML = {
    "jobId": "digits_1",
    "trainingInput": {
        "scaleTier": "CUSTOM",
        "region": "us-central1",
        "masterType": "n1-standard-4",
        "workerType": "n1-standard-4",
        "workerCount": 2,
        "jobDir": "gs://my-bucket/out",
    },
}
POOL = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "replicaCount": 1,
    "containerSpec": {"imageUri": "img"},
}
VERTEX = {
    "workerPoolSpecs": [POOL, {**POOL, "replicaCount": 3}],
    "baseOutputDirectory": {"outputUriPrefix": "gs://my-bucket/out"},
}


@pytest.mark.parametrize(("name", "spec"), [("ml", ML), ("vertex", VERTEX)])
def test_a_replica_sees_what_google_would_have_shown_it(trainshed, written, name, spec):
    words = ("--config", written("job.json", spec), "--role", "worker", "--index", "1")
    run = trainshed("explain-env", *words)
    assert run.code == 0
    check_golden(GOLDEN / f"explain_env_{name}.txt", run.out)


def test_as_json_the_values_are_the_texts_themselves(trainshed, written):
    variables = trainshed("explain-env", "--config", written("j.json", ML), "--format", "json").json
    assert json.loads(variables["TF_CONFIG"])["task"]["type"] == "chief"
    assert variables["RANK"] == "0"


def test_roles_have_the_names_of_either_dialect(trainshed, written):
    name = written("job.json", VERTEX)

    def ranks(role):
        return trainshed("explain-env", "--config", name, "--role", role, "--format", "json").json[
            "RANK"
        ]

    assert [ranks(role) for role in ("primary", "chief", "workerpool0", "workerpool1")] == [
        "0",
        "0",
        "0",
        "1",
    ]


def test_flags_win_over_the_file_here_too(trainshed, written):
    words = ("--config", written("job.json", ML), "--worker-count", "5", "--role", "worker")
    run = trainshed("explain-env", *words, "--index", "4", "--format", "json")
    assert run.json["WORLD_SIZE"] == "6"


def test_a_replica_that_does_not_exist_is_a_usage_error_that_names_those_that_do(
    trainshed, written
):
    words = ("explain-env", "--config", written("job.json", ML), "--role", "worker")
    run = trainshed(*words, "--index", "2")
    assert run.code == 2
    assert "the job has no worker 2 (accepted: primary 0, worker 0 to 1)" in run.err


def test_a_refused_job_is_not_explained(trainshed, written):
    bad = {"trainingInput": {**ML["trainingInput"], "region": "mars"}}
    run = trainshed("explain-env", "--config", written("job.json", bad))
    assert run.code == 2
    assert "trainingInput.region" in run.err


REDUCTION = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"


def test_a_job_with_too_few_reducers_is_explained_and_pool_2_is_theirs(trainshed, written):
    """Too few is advice on one machine, where the job would run (decision 0004)."""
    gpu = {"machineType": "n1-highmem-96", "acceleratorType": "NVIDIA_TESLA_V100"}
    worker = {**POOL, "machineSpec": {**gpu, "acceleratorCount": 8}}
    reducer = {**POOL, "containerSpec": {"imageUri": REDUCTION}}
    reducer["machineSpec"] = {"machineType": "n1-highcpu-16"}
    name = written(
        "job.json", {"workerPoolSpecs": [worker, {**worker, "replicaCount": 4}, reducer]}
    )
    run = trainshed("explain-env", "--config", name, "--role", "workerpool2", "--format", "json")
    assert run.code == 0, run.err
    assert json.loads(run.json["CLUSTER_SPEC"])["task"] == {"type": "workerpool2", "index": 0}
    assert "TF_CONFIG" not in run.json


def test_the_span_of_the_attempt_is_listed_where_the_server_sends_traces(
    trainshed, written, monkeypatch
):
    words = ("--config", written("j.json", ML), "--format", "json")
    assert "TRACEPARENT" not in trainshed("explain-env", *words).json
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    variables = trainshed("explain-env", *words).json
    assert parse_traceparent(variables["TRACEPARENT"])
