"""Looking at jobs, listing, cancelling, deleting and labelling them."""

import base64
import json
from datetime import timedelta

import pytest

from service.submitting import PLACE, PROJECT, custom_job, ml_job, refusal
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.refusals import Code
from trainshed.model.status import JobState
from trainshed.service.jobs.job_service import OperationService
from trainshed.service.jobs.paging import ANY_LOCATION, TOKEN_S_MAX, ListCall
from trainshed.store.decisions import cancel_step
from trainshed.store.records.jobs import JobKind
from trainshed.wire.aiplatform_v1.render import deletion
from trainshed.wire.ml_v1 import render as ml_v1

ENDED = [JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED]


def listed(desk, kind, project, location, **paging):
    """One page of jobs."""
    place = {"project": project, "location": location}
    return desk.jobs.list(ListCall(collection=kind.value, kind=kind, **place, **paging))


def test_a_job_is_found_by_its_name_only(desk):
    job_id = desk.custom(custom_job()).job.job_id
    assert desk.jobs.get(JobKind.CUSTOM_JOB, PROJECT, PLACE, job_id).job.spec.display_name == "cj"
    for where in [
        (JobKind.CUSTOM_JOB, PROJECT, "us-east1", job_id),
        (JobKind.CUSTOM_JOB, "other", PLACE, job_id),
        (JobKind.TUNING_JOB, PROJECT, PLACE, job_id),
        (JobKind.CUSTOM_JOB, PROJECT, PLACE, "7"),
        (JobKind.ML_JOB, PROJECT, "", job_id),
    ]:
        error = refusal(desk.jobs.get, *where)
        assert error.code is Code.NOT_FOUND
        assert error.message.endswith(f"/{where[0].value}/{where[3]} does not exist")
        assert refusal(desk.jobs.cancel, *where).code is Code.NOT_FOUND


def test_a_waiting_job_says_its_place_and_why_it_waits(desk):
    desk.ml(ml_job("first"))
    second = desk.ml(ml_job("second"))
    why = Explanation(reason=Reason.CAPACITY, message="All nodes are in use.")
    desk.store.explain({second.uid: why})
    answer = ml_v1.job(desk.get(second).job)
    assert answer["jobPosition"] == "2"
    assert answer["errorMessage"] == "All nodes are in use."
    running = desk.put(second, JobState.RUNNING)
    assert desk.get(running).job.status.queue_position is None
    assert "errorMessage" not in ml_v1.job(desk.get(running).job)


def test_pages_hold_every_job_once_newest_first(desk):
    ids = [desk.ml(ml_job(f"j{i}")).job.job_id for i in range(7)]
    desk.custom(custom_job())
    desk.ml(ml_job("foreign"), project="other")
    job_ids, token = [], ""
    for _ in range(4):
        page, token = listed(desk, JobKind.ML_JOB, PROJECT, "", page_size=2, page_token=token)
        job_ids += [record.job.job_id for record in page]
    assert job_ids == ids[::-1]
    assert token == ""


def test_a_list_of_a_location_holds_its_jobs_and_a_dash_stands_for_all(desk):
    here, there = desk.custom(custom_job()), desk.custom(custom_job(), location="us-east1")
    for location, expected in (
        (PLACE, [here]),
        ("us-east1", [there]),
        (ANY_LOCATION, [there, here]),
    ):
        page, _ = listed(desk, JobKind.CUSTOM_JOB, PROJECT, location)
        assert [record.uid for record in page] == [record.uid for record in expected]
    assert listed(desk, JobKind.TUNING_JOB, PROJECT, PLACE) == ([], "")


def test_a_filter_is_the_dialect_s(desk):
    for name in ("census_1", "census_2", "rnn"):
        desk.ml(ml_job(name))
    desk.put(desk.jobs.get(JobKind.ML_JOB, PROJECT, "", "census_2"), JobState.FAILED)

    def names(text):
        page, _ = listed(desk, JobKind.ML_JOB, PROJECT, "", filter_text=text)
        return [record.job.job_id for record in page]

    assert names("jobId:census*") == ["census_2", "census_1"]
    assert names("jobId:census* AND state:FAILED") == ["census_2"]
    assert names("state=STATE_UNSPECIFIED") == []
    assert refusal(names, "display_name=x").code is Code.INVALID_ARGUMENT


def test_a_page_token_belongs_to_one_list_for_a_while(desk):
    for i in range(3):
        desk.ml(ml_job(f"j{i}"))

    def one(project=PROJECT, **how):
        return listed(desk, JobKind.ML_JOB, project, "", page_size=1, **how)

    _, token = one()
    assert one(page_token=token)[0][0].job.job_id == "j1"
    for call in (
        lambda: one("other", page_token=token),
        lambda: one(page_token=token, filter_text="jobId:j*"),
        lambda: one(page_token=token[:-4]),
        lambda: one(page_token="no token at all"),
        lambda: one(page_token=base64.b64encode(json.dumps(["x"]).encode()).decode()),
        lambda: one(page_token=base64.b64encode(b'["x", 1e999, 1, 1]').decode()),
    ):
        error = refusal(call)
        assert error.code is Code.INVALID_ARGUMENT
        assert "page_token" in error.message
    desk.now += timedelta(seconds=TOKEN_S_MAX + 1)
    assert "expired" in refusal(one, page_token=token).message


@pytest.mark.parametrize(
    "forged", [1 << 63, -1, 10**400, 1e308, "1", True, None], ids=lambda value: str(value)[:8]
)
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_page_token_with_forged_numbers_is_refused(desk, forged, at):
    desk.ml(ml_job("j1"))
    desk.ml(ml_job("j2"))
    _, token = listed(desk, JobKind.ML_JOB, PROJECT, "", page_size=1)
    content = json.loads(base64.urlsafe_b64decode(token))
    content[at] = forged
    token = base64.urlsafe_b64encode(json.dumps(content).encode()).decode()
    error = refusal(listed, desk, JobKind.ML_JOB, PROJECT, "", page_size=1, page_token=token)
    assert (error.code, error.message) == (
        Code.INVALID_ARGUMENT,
        "the page_token is malformed; list again from the first page",
    )


def test_a_page_has_a_documented_size_and_a_negative_one_is_refused(desk):
    for i in range(21):
        desk.ml(ml_job(f"j{i}"))
    assert len(listed(desk, JobKind.ML_JOB, PROJECT, "")[0]) == 20
    error = refusal(listed, desk, JobKind.ML_JOB, PROJECT, "", page_size=-1)
    assert error.code is Code.INVALID_ARGUMENT


def test_cancel_ends_a_waiting_job_and_asks_a_running_one_to_end(desk):
    waiting, running = desk.ml(ml_job("waiting")), desk.ml(ml_job("running"))
    desk.put(running, JobState.RUNNING)
    woken = desk.woken
    for record in (waiting, running):
        desk.jobs.cancel(JobKind.ML_JOB, PROJECT, "", record.job.job_id, by="ann")
    assert desk.get(waiting).job.status.state is JobState.CANCELLED
    assert desk.get(waiting).job.status.error.code == 1
    assert desk.get(waiting).job.status.end_time
    assert desk.get(running).job.status.state is JobState.CANCELLING
    assert desk.woken == woken + 2
    story = [event.message for event in desk.store.events(waiting.uid)]
    assert "ann asked to cancel the job" in story


@pytest.mark.parametrize("state", [*ENDED, JobState.CANCELLING])
def test_cancel_of_what_is_over_changes_nothing(desk, state):
    record = desk.put(desk.ml(ml_job()), state)
    for _ in range(2):
        desk.jobs.cancel(JobKind.ML_JOB, PROJECT, "", "job_1")
    assert desk.store.job_by_uid(record.uid).version == record.version


@pytest.mark.parametrize("state", ENDED)
def test_a_job_that_is_over_can_be_deleted_and_is_gone(desk, state):
    record = desk.put(desk.custom(custom_job()), state)
    name = (JobKind.CUSTOM_JOB, PROJECT, PLACE, record.job.job_id)
    operation = desk.jobs.delete(*name)
    assert operation.done
    answer = deletion(operation.name, operation.create_time)
    assert answer["response"] == {"@type": "type.googleapis.com/google.protobuf.Empty"}
    parent, _, operation_id = operation.name.rpartition("/")
    assert parent == f"projects/{PROJECT}/locations/{PLACE}/operations"
    assert OperationService(desk.store).get(PROJECT, PLACE, operation_id) == operation
    assert refusal(desk.jobs.get, *name).code is Code.NOT_FOUND
    assert refusal(desk.jobs.delete, *name).code is Code.NOT_FOUND
    assert listed(desk, JobKind.CUSTOM_JOB, PROJECT, PLACE) == ([], "")


def test_a_job_that_is_not_over_is_cancelled_before_it_is_deleted(desk):
    record = desk.custom(custom_job())
    error = refusal(desk.jobs.delete, JobKind.CUSTOM_JOB, PROJECT, PLACE, record.job.job_id)
    assert error.code is Code.FAILED_PRECONDITION
    assert "cancel it first" in error.message


def test_an_operation_is_known_by_its_own_project_and_place_only(desk):
    record = desk.put(desk.custom(custom_job()), JobState.FAILED)
    name = desk.jobs.delete(JobKind.CUSTOM_JOB, PROJECT, PLACE, record.job.job_id).name
    operations, number = OperationService(desk.store), name.rpartition("/")[2]
    for where in (("other", PLACE, number), (PROJECT, "us-east1", number), (PROJECT, PLACE, "1")):
        assert refusal(operations.get, *where).code is Code.NOT_FOUND


def patch(desk, document, mask="labels"):
    return desk.jobs.patch(PROJECT, "job_1", document, mask)


def test_labels_are_replaced_and_echoed_and_the_rest_stays(desk):
    before = desk.ml({**ml_job(), "labels": {"a": "1"}})
    after = patch(desk, {"labels": {"b": "2"}})
    assert ml_v1.job(after.job)["labels"] == {"b": "2"}
    assert after.job.etag != before.job.etag
    assert ml_v1.job(after.job)["trainingInput"] == ml_v1.job(before.job)["trainingInput"]
    assert "labels" not in ml_v1.job(patch(desk, {"labels": {}}).job)
    page, _ = listed(desk, JobKind.ML_JOB, PROJECT, "", filter_text="labels.b=2")
    assert page == []


def test_a_stale_etag_refuses_the_patch_and_today_s_lets_it_pass(desk):
    etag = base64.b64encode(desk.ml(ml_job()).job.etag).decode()
    patched = patch(desk, {"labels": {"b": "2"}, "etag": etag}, "labels,etag")
    for mask in ("labels,etag", "labels", "etag"):
        error = refusal(patch, desk, {"labels": {"c": "3"}, "etag": etag}, mask)
        assert (error.code, error.code.http) == (Code.ABORTED, 409)
    etag = base64.b64encode(patched.job.etag).decode()
    assert patch(desk, {"etag": etag}, "etag").job.labels == {"b": "2"}


def test_a_patch_of_a_job_that_has_just_been_forgotten_finds_none(desk, monkeypatch):
    created = desk.ml(ml_job())
    desk.store.apply([cancel_step(created)])
    find_job = desk.store.job

    def find_and_forget(*name):
        record = find_job(*name)
        desk.store.forget([record.uid])
        return record

    monkeypatch.setattr(desk.store, "job", find_and_forget)
    assert refusal(patch, desk, {"labels": {"a": "1"}}, "labels").code is Code.NOT_FOUND


@pytest.mark.parametrize(
    ("document", "mask", "reason"),
    [
        ({"labels": {}}, "trainingInput.region,labels", "trainingInput.region cannot be changed"),
        ({"state": "FAILED"}, "", "state cannot be changed"),
        ({"labels": {"A": "b"}}, "labels", "the label A=b is malformed"),
        ({"labels": {"a": 1}}, "labels", "labels.a"),
        ({"labels": [1]}, "labels", "an object of texts"),
        ({"labels": {}, "etag": "???"}, "labels", "base64"),
        ([], "labels", "a JSON object"),
    ],
)
def test_a_patch_of_anything_else_is_refused(desk, document, mask, reason):
    desk.ml(ml_job())
    error = refusal(patch, desk, document, mask)
    assert error.code is Code.INVALID_ARGUMENT
    assert reason in error.message


def test_a_patch_of_an_unknown_job_is_not_found(desk):
    assert refusal(patch, desk, {"labels": {}}).code is Code.NOT_FOUND
