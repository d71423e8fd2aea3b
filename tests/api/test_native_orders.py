"""JobOrders about jobs from a page or the command line: cancel one or many, label, delete."""

import re
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import yaml

from api.support import application, build_native, client, project
from databases import new_database
from service.submitting import PLACE, Desk, custom_job, ml_job
from trainshed.api.native.app import native_app
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.status import JobState
from trainshed.service.jobs.orders import JobOrders
from trainshed.service.jobs.story import Stories
from trainshed.service.upkeep.audit_log import AuditLog
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import JobKind

ROOT = "/trainshed/v1/projects"
STOPPED = Explanation(reason=Reason.HELD, message="ada stopped it; `trainshed jobs resume a`")


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    store = open_store(new_database(tmp_path_factory.mktemp("orders")))
    desk = Desk(store)
    desk.audit_log = AuditLog(store)
    yield desk
    store.close()


@pytest.fixture
def name(request):
    """The id of a job that no other test has."""
    return "job_" + re.sub(r"\W", "_", request.node.name)[:100]


@pytest.fixture(scope="module")
def edge(desk):
    native = build_native(
        audit_log=desk.audit_log,
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


def test_a_job_is_cancelled_by_its_id_and_again_without_effect(edge, desk, name):
    record = desk.ml(ml_job(name))
    for _ in range(2):
        assert call(edge, "POST", f"demo/jobs/{name}:cancel").json() == {}
    assert state(desk, record) is JobState.CANCELLED
    [request] = [e for e in desk.store.events(record.uid) if e.kind == "CANCEL_REQUESTED"]
    assert request.message == "dora asked to cancel the job"


def test_a_viewer_cannot_order_anything(edge, desk, name):
    record = desk.ml(ml_job(name))
    orders = [
        ("POST", f"demo/jobs/{name}:cancel", None),
        ("POST", "demo/jobs:cancel", {"names": [record.name]}),
        ("POST", "-/jobs:cancel", {"names": [record.name]}),
        ("POST", f"demo/jobs/{name}:label", {"labels": {"a": "b"}}),
        ("POST", f"demo/jobs/{name}:resume", None),
        ("DELETE", f"demo/jobs/{name}", None),
        ("POST", "demo/jobs:check", {"text": "jobId: a"}),
        ("POST", "demo/jobs", {"text": "jobId: a"}),
    ]
    for verb, path, body in orders:
        answer = call(edge, verb, path, body, token="reader")
        assert answer.status_code == 403, path
        assert "needs the role submitter" in answer.json()["error"]["message"]
    assert state(desk, record) is JobState.QUEUED


def test_jobs_of_other_projects_are_as_if_they_did_not_exist(edge, desk, name):
    foreign = desk.ml(ml_job(name), project="other")
    for verb, path in [
        ("POST", f"other/jobs/{name}:cancel"),
        ("DELETE", f"other/jobs/{name}"),
        ("GET", f"other/jobs/{name}/document"),
    ]:
        assert call(edge, verb, path).status_code == 403
    assert call(edge, "POST", f"demo/jobs/{name}:cancel").status_code == 404
    for path in ("demo/jobs:cancel", "-/jobs:cancel"):
        results = call(edge, "POST", path, {"names": [foreign.name]}).json()["results"]
        assert results[0]["code"] in {"NOT_FOUND", "PERMISSION_DENIED"}
    assert state(desk, foreign) is JobState.QUEUED


def test_each_of_many_jobs_has_its_own_result(edge, desk, name):
    ml, vertex = desk.ml(ml_job(name)), desk.custom(custom_job())
    ended = desk.ml(ml_job(f"{name}_2"))
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
    desk.audit_log.write()
    logged = [row for row in desk.store.audit_log(limit=100) if f"{ml.name}:" in row.resource]
    assert [(row.caller, row.project, row.status) for row in logged] == [("dora", "demo", "OK")] * 2
    assert [state(desk, job).name for job in (ml, vertex, ended)] == [
        "CANCELLED", "CANCELLED", "SUCCEEDED",
    ]  # fmt: skip
    assert desk.woken > 0


@pytest.mark.parametrize("count", [0, 501])
def test_a_call_has_one_to_500_names(edge, count):
    answer = call(edge, "POST", "demo/jobs:cancel", {"names": ["projects/demo/jobs/a"] * count})
    assert answer.status_code == 400


def test_labels_are_set_and_removed_one_by_one(edge, desk, name):
    labels = {"team": "vision", "old": "x"}
    for record in (
        desk.ml({**ml_job(name), "labels": labels}),
        desk.custom({**custom_job(), "labels": labels}),
    ):
        path = f"demo/jobs/{record.job.job_id}"
        answer = call(edge, "POST", f"{path}:label", {"labels": {"phase": "two", "old": None}})
        assert answer.json() == {"labels": {"team": "vision", "phase": "two"}}
        document = call(edge, "GET", f"{path}/document").json()["document"]
        assert document["labels"] == {"team": "vision", "phase": "two"}


@pytest.mark.parametrize("value", ["<img src=x>", "=1+1", "x" * 4096, "UPPER"])
def test_labels_that_no_api_accepts_are_refused(edge, desk, name, value):
    desk.ml(ml_job(name))
    answer = call(edge, "POST", f"demo/jobs/{name}:label", {"labels": {"note": value}})
    assert answer.status_code == 400
    assert answer.json()["error"]["details"][0]["fieldViolations"][0]["field"] == "labels"


def test_only_a_job_that_has_ended_is_deleted(edge, desk, name):
    record = desk.ml(ml_job(name))
    refused = call(edge, "DELETE", f"demo/jobs/{name}")
    assert refused.status_code == 400
    assert "cancel it first" in refused.json()["error"]["message"]
    desk.put(record, JobState.FAILED)
    assert call(edge, "POST", f"demo/jobs/{name}:cancel").json() == {}
    assert state(desk, record) is JobState.FAILED
    assert call(edge, "DELETE", f"demo/jobs/{name}").json() == {}
    assert call(edge, "GET", f"demo/jobs/{name}").status_code == 404


def test_a_held_job_is_resumed_once_and_any_other_is_refused(edge, desk, name):
    record = desk.ml(ml_job(name))
    refused = call(edge, "POST", f"demo/jobs/{name}:resume")
    assert refused.status_code == 400
    message = refused.json()["error"]["message"]
    assert "is QUEUED, and this server does not hold it" in message
    assert "trainshed jobs explain" in message
    desk.put(record, JobState.PREPARING)
    desk.put(record, JobState.QUEUED, held=STOPPED)
    waiting = call(edge, "GET", f"demo/jobs/{name}").json()["waiting"]
    assert (waiting["reason"], waiting["message"]) == ("HELD", STOPPED.message)
    assert call(edge, "POST", f"other/jobs/{name}:resume").status_code == 403
    assert call(edge, "POST", f"demo/jobs/{name}:resume").json() == {}
    assert call(edge, "POST", f"demo/jobs/{name}:resume").status_code == 400
    [resumed] = [e for e in desk.store.events(record.uid) if e.kind == "RESUMED"]
    assert resumed.message == "dora resumed the job; it is queued again"


def test_held_trials_are_resumed_by_their_tuning_job(desk, monkeypatch, name):
    """The store is asked for the trials of a study; each trial is a job."""
    trials = [desk.custom(custom_job()) for _ in range(2)]
    for trial in trials:
        desk.put(trial, JobState.PREPARING)
        desk.put(trial, JobState.QUEUED, held=STOPPED)
    study = desk.ml(ml_job(name))
    orders = JobOrders(desk.store, desk.jobs, desk.pipelines)
    monkeypatch.setattr(type(study.job.spec), "is_study", property(lambda _: True))
    results = [SimpleNamespace(job_uid=trial.uid) for trial in trials]
    monkeypatch.setattr(desk.store, "trial_results", lambda _: results)
    orders.resume("demo", name, by="dora")
    assert not any(desk.store.job_by_uid(trial.uid).is_held for trial in trials)


def test_projects_are_those_of_the_caller_with_their_open_jobs(edge, desk, name):
    desk.put(desk.ml(ml_job(name)), JobState.SUCCEEDED)
    desk.ml(ml_job(f"{name}_2"))
    desk.ml(ml_job(name), project="other")
    open_jobs = {row: dict(desk.store.open_counts(row)) for row in ("demo", "other")}
    assert open_jobs["demo"]["QUEUED"] == desk.store.open_count("demo")
    projects_of = {"demo": ["demo"], "reader": ["demo"], "other": ["other"]}
    for token, projects in {**projects_of, "admin": ["demo", "other"]}.items():
        answer = edge.get("/trainshed/v1/projects", headers={"Authorization": f"Bearer {token}"})
        rows = {row["id"]: row["open"] for row in answer.json()["projects"]}
        assert rows == {row: open_jobs[row] for row in projects}, token


def test_two_pages_that_cancel_one_job_cancel_it_once(edge, desk, name):
    record = desk.ml(ml_job(name))
    with ThreadPoolExecutor(8) as pages:
        calls = [
            pages.submit(call, edge, "POST", path, body)
            for path, body in [
                (f"demo/jobs/{name}:cancel", None),
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
    assert desk.store.job("demo", JobKind.ML_JOB, "a") is None


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


def test_a_submission_that_is_sent_twice_makes_one_job(edge):
    text, location = yaml.safe_dump(custom_job()), PLACE

    def submit(**words):
        body = {"text": text, "location": location, **words}
        answer = call(edge, "POST", "demo/jobs", body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["displayName"] == "cj"
        return answer.json()["job"]

    with ThreadPoolExecutor(2) as threads:
        first, again = threads.map(lambda _: submit(requestId="a"), range(2))
    assert first == again
    others = [submit(requestId="b"), submit(), submit()]
    assert len({first, *others}) == 4
    text += "# another text\n"
    assert submit(requestId="a") not in {first, *others}


@pytest.mark.parametrize("request_id", ["", "a b", "x" * 65, 7])
def test_a_malformed_request_id_is_refused_and_a_check_needs_none(edge, request_id):
    body = {"text": yaml.safe_dump(custom_job()), "location": PLACE, "requestId": request_id}
    for path in ("demo/jobs", "demo/jobs:check"):
        answer = call(edge, "POST", path, body)
        assert answer.status_code == 400
        assert "requestId" in answer.json()["error"]["message"]


def test_the_study_alone_resumes_a_job_that_it_has_paused(edge, desk, name):
    record = desk.ml(ml_job(name))
    paused = Explanation(reason=Reason.PAUSED, message="Trial 3 is paused at step 9")
    desk.put(record, JobState.PREPARING)
    desk.put(record, JobState.QUEUED, held=paused)
    refused = call(edge, "POST", f"demo/jobs/{name}:resume")
    assert refused.status_code == 400
    message = refused.json()["error"]["message"]
    assert message.endswith(" cannot be resumed: Trial 3 is paused at step 9")
    assert desk.store.job_by_uid(record.uid).is_paused
