"""Training pipelines: a document around a real job (docs/sources/vertex.md 4.4)."""

import json
from pathlib import Path

import pytest

from service.submitting import PLACE, PROJECT, Desk, custom_job, fields, pool, refusal
from trainshed.model.refusals import Code
from trainshed.model.resource_names import PIPELINES
from trainshed.model.status import JobState
from trainshed.service.jobs.paging import ListCall
from trainshed.service.jobs.story import Stories
from trainshed.store.records.jobs import JobKind
from trainshed.wire.aiplatform_v1 import render

REQUESTS = Path(__file__).parents[1] / "wire/requests"
DEFINITION = "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml"


def request(name):
    return json.loads((REQUESTS / f"{name}.json").read_text())


def pipeline(name="tp", **more):
    inputs = custom_job()["jobSpec"]
    return {
        "displayName": name,
        "trainingTaskDefinition": DEFINITION,
        "trainingTaskInputs": inputs,
        **more,
    }


def create(desk, document, **how):
    return desk.pipelines.create(PROJECT, PLACE, document, creator="ann", **how)


def listed(desk, **paging):
    """One page of pipelines."""
    place = {"project": PROJECT, "location": PLACE}
    call = ListCall(collection=PIPELINES, kind=JobKind.CUSTOM_JOB, **place, **paging)
    return desk.pipelines.list(call)


def child_of(desk, view):
    return desk.jobs.get(JobKind.CUSTOM_JOB, PROJECT, PLACE, view.backing_custom_job.split("/")[-1])


def render_pipeline(view):
    return render.training_pipeline(
        view.job, backing_custom_job=view.backing_custom_job, model=view.model
    )


@pytest.mark.parametrize("name", ["vertex-4.4-pipeline", "vertex-4.4-container-pipeline"])
def test_inputs_come_back_as_they_were_sent_to_the_last_digit(desk, name):
    document = request(name)
    view = create(desk, document)
    for answer in (
        render_pipeline(view),
        render_pipeline(desk.pipelines.get(PROJECT, PLACE, view.job.job_id)),
    ):
        sent, back = document["trainingTaskInputs"], answer["trainingTaskInputs"]
        assert json.dumps(back, sort_keys=True) == json.dumps(sent, sort_keys=True)
        assert answer.get("modelToUpload") == document.get("modelToUpload")
        assert answer["trainingTaskMetadata"] == {"backingCustomJob": view.backing_custom_job}
        assert answer["displayName"] == document["displayName"]
        assert answer["state"] == "PIPELINE_STATE_QUEUED"
    assert desk.woken == 1


def test_the_native_api_takes_the_number_of_a_pipeline_for_its_job(desk):
    view = create(desk, pipeline())
    record = Stories(desk.store).find(PROJECT, view.job.job_id)
    assert record.name == view.backing_custom_job
    foreign = refusal(Stories(desk.store).find, "other", view.job.job_id)
    assert foreign.code is Code.NOT_FOUND


def test_the_child_is_a_custom_job_like_any_other(desk):
    view = create(desk, pipeline(labels={"team": "a"}))
    child = child_of(desk, view)
    assert view.backing_custom_job == f"projects/{PROJECT}/locations/{PLACE}/customJobs/{child.uid}"
    job = render.custom_job(child.job)
    assert job["displayName"] == "tp-custom-job"
    assert job["labels"]["team"] == "a"
    assert job["jobSpec"]["workerPoolSpecs"][0]["replicaCount"] == "1"
    assert "trainingTaskInputs" not in job
    assert view.job.job_id != child.job.job_id


def test_the_log_says_where_the_model_will_be(desk):
    view = create(desk, request("vertex-4.4-pipeline"))
    notes = desk.store.notes(child_of(desk, view).uid)
    (message,) = [note for note in notes if "modelToUpload" in note]
    assert "gs://stage/aiplatform-custom-training-2026-11-20-23:53:46.097/model/" in message
    view = create(desk, pipeline())
    assert not any("model" in note for note in desk.store.notes(child_of(desk, view).uid))


@pytest.mark.parametrize("state", JobState)
def test_a_pipeline_is_what_its_child_is(desk, state):
    view = create(desk, pipeline())
    if state is not JobState.QUEUED:
        desk.put(child_of(desk, view), state)
    answer = render_pipeline(desk.pipelines.get(PROJECT, PLACE, view.job.job_id))
    words = {
        JobState.ENQUEUED: "QUEUED",
        JobState.PREPARING: "PENDING",
        JobState.RESTARTING: "RUNNING",
    }
    word = words.get(state, state.value)
    assert answer["state"] == f"PIPELINE_STATE_{word}"
    assert ("endTime" in answer) is state.is_final
    assert ("error" in answer) is (state in {JobState.FAILED, JobState.CANCELLED})


def test_a_cancelled_pipeline_has_the_code_by_which_the_sdk_knows_it(desk):
    view = create(desk, pipeline())
    for _ in range(2):
        desk.pipelines.cancel(PROJECT, PLACE, view.job.job_id, by="ann")
    answer = render_pipeline(desk.pipelines.get(PROJECT, PLACE, view.job.job_id))
    assert answer["state"] == "PIPELINE_STATE_CANCELLED"
    assert answer["error"]["code"] == 1
    assert child_of(desk, view).job.status.state is JobState.CANCELLED


def test_a_pipeline_that_is_over_can_be_deleted_and_its_child_stays(desk):
    view = create(desk, pipeline())
    where = (PROJECT, PLACE, view.job.job_id)
    error = refusal(desk.pipelines.delete, *where)
    assert error.code is Code.FAILED_PRECONDITION
    assert "cancel it first" in error.message
    desk.put(child_of(desk, view), JobState.SUCCEEDED)
    assert desk.pipelines.delete(*where).done
    assert refusal(desk.pipelines.get, *where).code is Code.NOT_FOUND
    assert child_of(desk, view).job.status.state is JobState.SUCCEEDED


def test_a_pipeline_whose_child_was_deleted_is_still_there(desk):
    view = create(desk, pipeline())
    child = desk.put(child_of(desk, view), JobState.SUCCEEDED)
    desk.jobs.delete(JobKind.CUSTOM_JOB, PROJECT, PLACE, child.job.job_id)
    where = (PROJECT, PLACE, view.job.job_id)
    assert render_pipeline(desk.pipelines.get(*where))["state"] == "PIPELINE_STATE_SUCCEEDED"
    desk.pipelines.cancel(*where)
    assert desk.pipelines.delete(*where).done


@pytest.mark.parametrize("pipeline_id", ["7", "x", "", "1/2", "٣", "9" * 19, "-1"])
def test_an_unknown_pipeline_is_named(desk, pipeline_id):
    error = refusal(desk.pipelines.get, PROJECT, PLACE, pipeline_id)
    assert error.code is Code.NOT_FOUND
    assert f"trainingPipelines/{pipeline_id} does not exist" in error.message


def test_a_pipeline_is_found_in_its_own_project_and_place_only(desk):
    pipeline_id = create(desk, pipeline()).job.job_id
    for project, place in (("other", PLACE), (PROJECT, "us-east1")):
        error = refusal(desk.pipelines.get, project, place, pipeline_id)
        assert error.code is Code.NOT_FOUND


def test_a_repeated_call_makes_no_second_pipeline(desk):
    first = create(desk, pipeline(), retry_key="k")
    assert create(desk, pipeline(), retry_key="k") == first
    assert desk.store.waiting_count() == 1


def test_pages_and_filters_are_those_of_pipelines(desk):
    ids = [create(desk, pipeline(f"tp{i}")).job.job_id for i in range(5)]
    job_ids, token = [], ""
    for _ in range(3):
        page, token = listed(desk, page_size=2, page_token=token)
        job_ids += [view.job.job_id for view in page]
    assert (job_ids, token) == (ids[::-1], "")

    def named(text):
        page, _ = listed(desk, filter_text=text)
        return [view.job.job_id for view in page]

    assert named('display_name="tp3"') == [ids[3]]
    assert named("training_task_definition:*custom_task* state=PIPELINE_STATE_QUEUED") == ids[::-1]
    assert named("NOT training_task_definition:*custom_task*") == []
    assert refusal(named, "state=JOB_STATE_QUEUED").code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (request("shape-vertex-automl-pipeline"), "trainingTaskDefinition"),
        (
            pipeline(trainingTaskDefinition=DEFINITION.replace("custom", "automl")),
            "trainingTaskDefinition",
        ),
        (pipeline(""), "displayName"),
        ({"displayName": "x", "trainingTaskInputs": {}}, "trainingTaskInputs.workerPoolSpecs"),
        (pipeline(trainingTaskInputs=[]), "trainingTaskInputs"),
        (
            pipeline(trainingTaskInputs={"worker_pool_specs": [pool(image="me/own:1")]}),
            "trainingTaskInputs.worker_pool_specs[0].containerSpec.imageUri",
        ),
    ],
)
def test_a_pipeline_is_refused_by_field_and_nothing_is_stored(desk, document, field):
    error = refusal(create, desk, document)
    assert error.code is Code.INVALID_ARGUMENT
    assert field in fields(error)
    assert not desk.store.waiting_count()
    assert listed(desk) == ([], "")


def test_only_the_custom_task_is_run_and_a_refusal_names_it(desk: Desk):
    error = refusal(create, desk, request("shape-vertex-automl-pipeline"))
    assert "custom_task_1.0.0.yaml" in error.message
