"""A job file becomes a job of so many hosts that is there to be measured."""

import json

import pytest

from trainshed.model.faults import UsageFault
from trainshed.model.labels import MEASURE, PLAN_LABEL
from trainshed.workbench.measured_jobs import measured_job

POOL = {"machineSpec": {"machineType": "n1-standard-4"}, "containerSpec": {"imageUri": "a"}}
VERTEX = {"workerPoolSpecs": [POOL, {**POOL, "replicaCount": 3}, {**POOL, "replicaCount": 2}]}
ML = {
    "jobId": "mine",
    "labels": {"team": "vision"},
    "trainingInput": {
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "parameterServerCount": "2",
    },
}


@pytest.fixture
def make_job(tmp_path):
    def make(content, hosts):
        path = tmp_path / "job.json"
        path.write_text(json.dumps(content))
        return measured_job(str(path), hosts, "calibrate_1", 300)

    return make


@pytest.mark.parametrize("content", [VERTEX, {"displayName": "x", "jobSpec": VERTEX}])
def test_a_custom_job_has_a_first_pool_and_the_others_in_the_second(make_job, content):
    one, three = make_job(content, 1), make_job(content, 3)
    assert (one.group, one.document["displayName"]) == ("ai custom-jobs", "calibrate_1")
    counts = [
        [pool["replicaCount"] for pool in job.document["jobSpec"]["workerPoolSpecs"]]
        for job in (one, three)
    ]
    assert counts == [[1], [1, 2]]
    assert three.document["labels"] == {PLAN_LABEL: MEASURE}
    assert three.document["jobSpec"]["scheduling"] == {"timeout": "300s"}


def test_one_pool_alone_is_what_the_other_hosts_are(make_job):
    pools = make_job({"worker_pool_specs": [POOL]}, 2).document["jobSpec"]["worker_pool_specs"]
    assert [pool["machineSpec"]["machineType"] for pool in pools] == ["n1-standard-4"] * 2


def test_a_job_of_ai_platform_has_workers_as_its_master_is(make_job):
    job = make_job(ML, 3)
    training_input = job.document["trainingInput"]
    assert job.group == "ai-platform jobs"
    assert (job.document["jobId"], training_input["workerCount"]) == ("calibrate_1", "2")
    assert training_input["workerType"] == "n1-standard-4"
    assert training_input["scheduling"] == {"maxRunningTime": "300s"}
    assert "parameterServerCount" not in training_input
    assert job.document["labels"] == {"team": "vision", PLAN_LABEL: MEASURE}


def test_a_scale_tier_is_one_host_or_refused(make_job):
    basic = {"trainingInput": {"scaleTier": "BASIC", "pythonModule": "trainer.task"}}
    assert "workerCount" not in make_job(basic, 1).document["trainingInput"]
    with pytest.raises(UsageFault, match="masterType is missing; set it, and scaleTier CUSTOM"):
        make_job(basic, 2)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            {"studySpec": {}},
            "a HyperparameterTuningJob; it must be an AI Platform Job or a CustomJob",
        ),
        ({"what": 1}, "it must be an AI Platform Job or a CustomJob"),
        ({"workerPoolSpecs": 3}, "workerPoolSpecs must be a list of pools"),
        ({"jobSpec": 3}, "jobSpec must be a mapping of fields"),
        ({"trainingInput": 3}, "trainingInput must be a mapping of fields"),
    ],
)
def test_what_cannot_be_measured_is_a_sentence(make_job, content, reason):
    with pytest.raises(UsageFault, match=reason):
        make_job(content, 1)
