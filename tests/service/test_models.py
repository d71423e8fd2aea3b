"""Models: what a pipeline has trained has a name, from the moment in which its job succeeded."""

from datetime import timedelta

import pytest

from service.submitting import PLACE, PROJECT, fields, refusal
from service.test_pipelines import child_of, create, pipeline, render_pipeline
from trainshed.api.handlers import _model
from trainshed.model.refusals import Code
from trainshed.model.resource_names import MODELS
from trainshed.model.status import JobState
from trainshed.service.jobs import models
from trainshed.service.jobs.paging import ListCall
from trainshed.store.records.jobs import JobKind

BASE = "gs://out/run"
PREFIX = f"projects/{PROJECT}/locations/{PLACE}/models"


def training(desk, state=JobState.SUCCEEDED, **more):
    """A pipeline that asks for a model, with its job in a state."""
    document = pipeline(**{"modelToUpload": {"displayName": "mm"}, **more})
    document["trainingTaskInputs"]["baseOutputDirectory"] = {"outputUriPrefix": BASE}
    view = create(desk, document)
    if state is not JobState.QUEUED:
        desk.put(child_of(desk, view), state)
    return desk.pipelines.get(PROJECT, PLACE, view.job.job_id)


def get(desk, name):
    return _model(desk.models.get(PROJECT, PLACE, name))


def listed(desk, filter_text="", project=PROJECT, **paging):
    call = ListCall(
        collection=MODELS, kind=JobKind.CUSTOM_JOB, project=project, location=PLACE,
        filter_text=filter_text, **paging,
    )  # fmt: skip
    views, token = desk.models.list(call)
    return [_model(view) for view in views], token


def uploaded(desk, model_id="", **model):
    document = {"model": {"displayName": "up", "artifactUri": "gs://b/m", **model}}
    if model_id:
        document["modelId"] = model_id
    return desk.models.upload(PROJECT, PLACE, document).made


@pytest.mark.parametrize("state", JobState)
def test_a_pipelines_model_is_there_once_its_job_has_succeeded(desk, state):
    view = training(desk, state)
    models, model_to_upload = listed(desk)[0], render_pipeline(view)["modelToUpload"]
    if state is not JobState.SUCCEEDED:
        assert models == []
        assert "name" not in model_to_upload
        assert refusal(get, desk, view.job.job_id).code is Code.NOT_FOUND
        return
    [model] = models
    assert model_to_upload["name"] == model["name"] == f"{PREFIX}/{view.job.job_id}"
    assert model["artifactUri"] == f"{BASE}/model"
    assert (model["displayName"], model["versionId"]) == ("mm", "1")
    assert model["trainingPipeline"].endswith(f"trainingPipelines/{view.job.job_id}")
    assert get(desk, view.job.job_id) == get(desk, f"{view.job.job_id}@1") == model


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED])
def test_a_model_outlives_what_is_known_of_its_job(desk, state):
    view = training(desk, state, modelToUpload={"displayName": "mm", "labels": {"a": "b"}})
    before = listed(desk, "labels.a=b")[0]
    desk.store.forget([child_of(desk, view).uid])
    assert refusal(desk.pipelines.get, PROJECT, PLACE, view.job.job_id).code is Code.NOT_FOUND
    assert listed(desk, "labels.a=b")[0] == before
    assert len(before) == desk.store.count_models(PROJECT) == (state is JobState.SUCCEEDED)


def test_a_model_id_that_is_there_gets_a_new_version(desk):
    training(desk, modelId="mine")
    training(desk, JobState.FAILED, modelId="mine")
    training(desk, parentModel=f"{PREFIX}/mine@1", modelToUpload={"versionAliases": ["best"]})
    assert [model["versionId"] for model in listed(desk)[0]] == ["3"]
    assert get(desk, "mine") == get(desk, "mine@default") == get(desk, "mine@best")
    assert get(desk, "mine")["versionAliases"] == ["default", "best"]
    assert "versionAliases" not in get(desk, "mine@1")
    assert refusal(get, desk, "mine@2").code is Code.NOT_FOUND
    call = ListCall(collection="v", kind=JobKind.CUSTOM_JOB, project=PROJECT, location=PLACE)
    views, _ = desk.models.versions(call, "mine")
    assert [_model(view)["versionId"] for view in views] == ["3", "1"]


def test_an_uploaded_model_is_found_listed_and_deleted(desk):
    assert uploaded(desk, "up", labels={"team": "a"}) == f"{PREFIX}/up@1"
    for count in range(3):
        uploaded(desk, displayName=f"other {count}")
        desk.now += timedelta(seconds=1)
    assert get(desk, "up")["artifactUri"] == "gs://b/m"
    assert len(listed(desk, "display_name:other*")[0]) == 3
    first, token = listed(desk, page_size=3)
    rest, end = listed(desk, page_size=3, page_token=token)
    assert ({model["name"] for model in first + rest}, end) == (
        {model["name"] for model in listed(desk)[0]}, "",
    )  # fmt: skip
    assert len(first + rest) == 4
    assert listed(desk, project="other")[0] == []
    assert desk.models.delete(PROJECT, PLACE, "up").done
    assert refusal(get, desk, "up").code is Code.NOT_FOUND
    assert listed(desk, "labels.team=a")[0] == []


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"model": {}}, "model.displayName"),
        ({"model": {"displayName": "m", "artifactUri": "/etc"}}, "model.artifactUri"),
        ({"model": {"displayName": "m", "artifactUri": "gs://others/x"}}, "model.artifactUri"),
        ({"model": {"displayName": "m"}, "model_id": "A B"}, "model_id"),
        ({"model": {"displayName": "m"}, "parentModel": "mine"}, "parentModel"),
        ({"model": {"displayName": "m", "artefactUri": "gs://b/x"}}, "model.artefactUri"),
    ],
)
def test_an_upload_is_refused_by_field(desk, document, field):
    error = refusal(desk.models.upload, PROJECT, PLACE, document)
    assert (error.code, fields(error)) == (Code.INVALID_ARGUMENT, [field])


@pytest.mark.parametrize("document", [None, [], "x"])
def test_an_upload_that_is_no_object_is_refused(desk, document):
    assert refusal(desk.models.upload, PROJECT, PLACE, document).code is Code.INVALID_ARGUMENT


def test_a_pipeline_that_names_no_model_here_is_refused(desk):
    absent = refusal(training, desk, parentModel=f"{PREFIX}/nobody")
    assert absent.code is Code.NOT_FOUND
    assert "models/nobody does not exist" in absent.message
    assert fields(refusal(training, desk, modelId="A B")) == ["modelId"]
    assert not desk.store.waiting_count()


def test_a_project_has_a_bound_on_its_models(desk, monkeypatch):
    monkeypatch.setattr(models, "MODELS_MAX", 2)
    uploaded(desk)
    training(desk, JobState.QUEUED)
    for full in (refusal(uploaded, desk), refusal(training, desk)):
        assert full.code is Code.RESOURCE_EXHAUSTED
        assert "delete some" in full.message
    large = {"displayName": "m", "description": "x" * 70000}
    assert "bytes" in refusal(uploaded, desk, **large).message
