"""JobOrders about jobs from a page or the command line: cancel one or many, label, delete."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from api.support import application, build_native, client, project
from databases import new_database
from service.submitting import PLACE, Desk, custom_job, ml_job
from trainshed.api.native.app import native_app
from trainshed.model.status import JobState
from trainshed.service.jobs.orders import JobOrders
from trainshed.service.jobs.story import Stories
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import JobKind

ROOT = "/trainshed/v1/projects"


@pytest.fixture
def desk(tmp_path):
    with_store = open_store(new_database(tmp_path))
    yield Desk(with_store)
    with_store.close()


@pytest.fixture
def edge(desk):
    native = build_native(
        store=desk.store,
        stories=Stories(desk.store),
        orders=JobOrders(desk.store, desk.jobs, desk.pipelines),
        texts=desk.texts,
    )
    app = native_app(native, "1")
    app.state.permissions = type(app.state.permissions)(project)
    with client(application([], native=app, body_bytes_max=8 << 20)) as opened:
        yield opened


def call(edge, verb, path, body=None, token="demo"):  # noqa: S107
    headers = {"Authorization": f"Bearer {token}"}
    return edge.request(verb, f"{ROOT}/{path}", json=body, headers=headers)


def state(desk, record):
    return desk.store.job_by_uid(record.uid).job.status.state


def test_a_job_is_cancelled_by_its_id_and_again_without_effect(edge, desk):
    record = desk.ml(ml_job())
    for _ in range(2):
        assert call(edge, "POST", "demo/jobs/job_1:cancel").json() == {}
    assert state(desk, record) is JobState.CANCELLED
    [request] = [e for e in desk.store.events(record.uid) if e.kind == "CANCEL_REQUESTED"]
    assert request.message == "dora asked to cancel the job"


def test_a_viewer_cannot_order_anything(edge, desk):
    record = desk.ml(ml_job())
    orders = [
        ("POST", "demo/jobs/job_1:cancel", None),
        ("POST", "demo/jobs:cancel", {"names": [record.name]}),
        ("POST", "-/jobs:cancel", {"names": [record.name]}),
        ("POST", "demo/jobs/job_1:label", {"labels": {"a": "b"}}),
        ("DELETE", "demo/jobs/job_1", None),
        ("POST", "demo/jobs:check", {"text": "jobId: a"}),
        ("POST", "demo/jobs", {"text": "jobId: a"}),
    ]
    for verb, path, body in orders:
        answer = call(edge, verb, path, body, token="reader")
        assert answer.status_code == 403, path
        assert "needs the role submitter" in answer.json()["error"]["message"]
    assert state(desk, record) is JobState.QUEUED


def test_jobs_of_other_projects_are_as_if_they_did_not_exist(edge, desk):
    foreign = desk.ml(ml_job(), project="other")
    for verb, path in [
        ("POST", "other/jobs/job_1:cancel"),
        ("DELETE", "other/jobs/job_1"),
        ("GET", "other/jobs/job_1/document"),
    ]:
        assert call(edge, verb, path).status_code == 403
    assert call(edge, "POST", "demo/jobs/job_1:cancel").status_code == 404
    for path in ("demo/jobs:cancel", "-/jobs:cancel"):
        results = call(edge, "POST", path, {"names": [foreign.name]}).json()["results"]
        assert results[0]["code"] in {"NOT_FOUND", "PERMISSION_DENIED"}
    assert state(desk, foreign) is JobState.QUEUED


def test_each_of_many_jobs_has_its_own_result(edge, desk):
    ml, vertex = desk.ml(ml_job()), desk.custom(custom_job())
    ended = desk.ml(ml_job("job_2"))
    desk.put(ended, JobState.SUCCEEDED)
    names = [
        ml.name,
        vertex.name,
        ended.name,
        ml.name,
        "projects/demo/jobs/none",
        vertex.name.replace(PLACE, "europe-west4"),
        "<b>no name</b>",
    ]
    results = call(edge, "POST", "-/jobs:cancel", {"names": names}).json()["results"]
    assert [row["name"] for row in results] == names
    assert [row["code"] for row in results] == [
        "OK", "OK", "OK", "OK", "NOT_FOUND", "NOT_FOUND", "INVALID_ARGUMENT",
    ]  # fmt: skip
    assert [state(desk, job).name for job in (ml, vertex, ended)] == [
        "CANCELLED", "CANCELLED", "SUCCEEDED",
    ]  # fmt: skip
    assert desk.woken > 0


@pytest.mark.parametrize("count", [0, 501])
def test_a_call_has_one_to_500_names(edge, count):
    answer = call(edge, "POST", "demo/jobs:cancel", {"names": ["projects/demo/jobs/a"] * count})
    assert answer.status_code == 400


def test_labels_are_set_and_removed_one_by_one(edge, desk):
    labels = {"team": "vision", "old": "x"}
    for record in (
        desk.ml({**ml_job(), "labels": labels}),
        desk.custom({**custom_job(), "labels": labels}),
    ):
        path = f"demo/jobs/{record.job.job_id}"
        answer = call(edge, "POST", f"{path}:label", {"labels": {"phase": "two", "old": None}})
        assert answer.json() == {"labels": {"team": "vision", "phase": "two"}}
        document = call(edge, "GET", f"{path}/document").json()["document"]
        assert document["labels"] == {"team": "vision", "phase": "two"}


@pytest.mark.parametrize("value", ["<img src=x>", "=1+1", "x" * 4096, "UPPER"])
def test_labels_that_no_api_accepts_are_refused(edge, desk, value):
    desk.ml(ml_job())
    answer = call(edge, "POST", "demo/jobs/job_1:label", {"labels": {"note": value}})
    assert answer.status_code == 400
    assert answer.json()["error"]["details"][0]["fieldViolations"][0]["field"] == "labels"


def test_only_a_job_that_has_ended_is_deleted(edge, desk):
    record = desk.ml(ml_job())
    refused = call(edge, "DELETE", "demo/jobs/job_1")
    assert refused.status_code == 400
    assert "cancel it first" in refused.json()["error"]["message"]
    desk.put(record, JobState.FAILED)
    assert call(edge, "POST", "demo/jobs/job_1:cancel").json() == {}
    assert state(desk, record) is JobState.FAILED
    assert call(edge, "DELETE", "demo/jobs/job_1").json() == {}
    assert call(edge, "GET", "demo/jobs/job_1").status_code == 404


def test_projects_are_those_of_the_caller_with_their_open_jobs(edge, desk):
    desk.put(desk.ml(ml_job()), JobState.SUCCEEDED)
    desk.ml(ml_job("job_2"))
    desk.ml(ml_job(), project="other")
    for token, expected in [
        ("demo", {"demo": {"QUEUED": 1}}),
        ("reader", {"demo": {"QUEUED": 1}}),
        ("other", {"other": {"QUEUED": 1}}),
        ("admin", {"demo": {"QUEUED": 1}, "other": {"QUEUED": 1}}),
    ]:
        answer = edge.get("/trainshed/v1/projects", headers={"Authorization": f"Bearer {token}"})
        assert {row["id"]: row["open"] for row in answer.json()["projects"]} == expected, token


def test_two_pages_that_cancel_one_job_cancel_it_once(edge, desk):
    record = desk.ml(ml_job())
    with ThreadPoolExecutor(8) as pages:
        calls = [
            pages.submit(call, edge, "POST", path, body)
            for path, body in [
                ("demo/jobs/job_1:cancel", None),
                ("demo/jobs:cancel", {"names": [record.name]}),
            ]
            * 8
        ]
        assert {one.result().status_code for one in calls} == {200}
    kinds = [event.kind for event in desk.store.events(record.uid)]
    assert (kinds.count("CANCEL_REQUESTED"), kinds.count("CANCELLED")) == (1, 1)


def test_a_check_has_places_edits_and_no_field_that_is_unknown(edge, desk):
    text = "jobId: a\ntrainingInput: {scaleTeir: BASIC, region: us-central1}\n"
    answer = call(edge, "POST", "demo/jobs:check", {"text": text}).json()
    [violation] = [v for v in answer["violations"] if v["rule"] == "unknown-field"]
    assert violation["edit"] == {
        "line": 2, "column": 17, "endLine": 2, "endColumn": 26, "text": "scaleTier",
        "title": "Rename to scaleTier",
    }  # fmt: skip
    assert (violation["line"], violation["endColumn"]) == (2, 26)
    assert answer["kind"] == "AI_PLATFORM_JOB"
    assert desk.store.open_count("demo") == 0


@pytest.mark.parametrize("body", [{}, {"text": 1}, {"text": "a: 1", "more": 1}, [], "a: 1"])
def test_a_check_of_no_text_is_refused_in_a_sentence(edge, body):
    answer = call(edge, "POST", "demo/jobs:check", body)
    assert (answer.status_code, answer.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")


def test_a_submitted_text_is_a_job_of_its_caller(edge, desk):
    text = yaml.safe_dump(custom_job())
    job = call(edge, "POST", "demo/jobs", {"text": text, "location": PLACE}).json()
    record = desk.store.job("demo", JobKind.CUSTOM_JOB, job["job"])
    assert (record.name, record.creator, job["project"]) == (job["name"], "dora", "demo")
    refused = call(edge, "POST", "demo/jobs", {"text": "a: [", "location": PLACE})
    assert refused.status_code == 400
    assert "line 2, column 1" in refused.json()["error"]["message"]
