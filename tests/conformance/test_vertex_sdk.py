"""The unmodified Vertex SDK, newest and 1.60.0, over REST and gRPC with TLS (contract 4, 6)."""

import itertools

import pytest

from conformance.client_scripts import SDKS, bucket_variables, run_sdk_script

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: test_over_https.py calls with the older one, over REST; the other pairs repeat this one.
SHORT = {("newest", "grpc")}
WAYS = [
    pytest.param(way, id="-".join(way), marks=() if way in SHORT else pytest.mark.full)
    for way in itertools.product(SDKS, ("rest", "grpc"))
]


@pytest.fixture(scope="module", params=WAYS)
def results(request, server):
    """What every scenario came to, by its name."""
    bucket = bucket_variables(server, "demo-proj", "stage-bkt")
    return run_sdk_script(server, request.param, "vertex_calls.py", **bucket)


def test_run_returns_when_the_job_has_succeeded(results):
    assert results["run_succeeds"] == {
        "state": "JOB_STATE_SUCCEEDED",
        "ended": True,
        "labels": {"team": "a"},
        "error": False,
    }
    assert results["in_the_background"] == {"state": "JOB_STATE_SUCCEEDED"}


def test_run_raises_what_the_replica_came_to(results):
    failed = results["run_fails"]
    assert failed["state"] == "JOB_STATE_FAILED"
    assert "workerpool0-0 exited with a non-zero status of 3" in failed["raised"]


def test_a_job_is_cancelled_and_deleted(results):
    ended = results["cancel_and_delete"]
    assert ended["state"] == "JOB_STATE_CANCELLED"
    assert ended["code"] == 1
    assert ended["gone"]


def test_lists_are_filtered_by_the_server(results):
    assert results["lists"]["one"][:1] == ["cj-listed-1"]
    assert set(results["lists"]["all"]) == {f"cj-listed-{place}" for place in range(3)}


def test_a_local_script_is_packed_uploaded_and_run(results):
    assert results["from_local_script"]["state"] == "JOB_STATE_SUCCEEDED"


@pytest.mark.parametrize("name", ["training_job", "container_training_job", "package_training_job"])
def test_training_pipelines_run_to_the_end(results, name):
    assert results[name]["state"] == "PIPELINE_STATE_SUCCEEDED"


def test_a_pipeline_names_the_job_that_does_its_work(results):
    assert results["training_job"]["backing"]
    assert results["training_job"]["model"] is None


def test_a_training_job_returns_a_model_whose_uri_is_where_it_was_trained_to(results):
    assert results["trained_model"] == {
        "uri": "gs://stage-bkt/with-model/model",
        "name": "trained",
        "same": True,
        "versions": ["1", "2"],
        "newest": "gs://stage-bkt/again/model",
        "trained by": True,
    }
    uploaded = "gs://stage-bkt/made"
    assert results["uploaded_model"] == {"uri": uploaded, "listed": [uploaded], "gone": True}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("endpoint", "there are no endpoints here"),
        ("batch", "there is no batch prediction here"),
        ("tensorboard", "there are no TensorBoard resources here"),
    ],
)
def test_what_is_not_here_is_refused_when_it_is_created(results, name, sentence):
    assert sentence in results["not_here"][name]


def test_a_failing_pipeline_raises(results):
    failed = results["failing_pipeline"]
    assert failed["state"] == "PIPELINE_STATE_FAILED"
    assert "workerpool0-0 exited with a non-zero status of 4" in failed["raised"]


def test_a_training_job_that_saves_no_model_fails_and_names_the_folder(results):
    failed = results["no_model"]
    assert failed["state"] == "PIPELINE_STATE_FAILED"
    assert "there are no files under gs://stage-bkt/without-model/model/" in failed["raised"]
    assert "AIP_MODEL_DIR" in failed["raised"]


def test_a_refusal_reaches_the_user_with_the_field(results):
    assert results["refused"]["kind"] in {"BadRequest", "InvalidArgument"}
    assert (
        "machineType" in results["refused"]["text"] or "machine_type" in results["refused"]["text"]
    )
    assert "n9-huge" in results["refused"]["text"]
