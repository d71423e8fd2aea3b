"""The one list of jobs: a caller gets the jobs of his projects, page by page, by any filter."""

import pytest

from api.support import application, build_native, client, project
from databases import new_database
from store.builders import add, go
from trainshed.api.native.app import native_app
from trainshed.model.status import JobState
from trainshed.service.jobs.story import Stories
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import JobKind

ROOT = "/trainshed/v1/projects"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    opened = open_store(new_database(tmp_path_factory.mktemp("jobs")))
    for number in range(5):
        add(opened, kind=JobKind.ML_JOB, job_id=f"j{number}", display_name="", project="demo")
    foreign = add(opened, display_name="foreign", project="other", creator="otto")
    go(opened, foreign.uid, JobState.CANCELLED)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def edge(store):
    native = build_native(store=store, stories=Stories(store))
    app = native_app(native, "1")
    app.state.permissions = type(app.state.permissions)(project)
    with client(application([], native=app)) as opened:
        yield opened


def listed(edge, path, caller="demo", **query):
    answer = edge.get(f"{ROOT}/{path}", params=query, headers={"Authorization": f"Bearer {caller}"})
    assert answer.status_code == 200, answer.text
    return answer.json()


def names(page):
    return [row["displayName"] for row in page["jobs"]]


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("demo", ["j4", "j3", "j2", "j1", "j0"]),
        ("other", ["foreign"]),
        ("admin", ["foreign", "j4", "j3", "j2", "j1", "j0"]),
    ],
)
def test_all_projects_are_those_of_the_caller(edge, token, expected):
    page = listed(edge, "-/jobs", token)
    assert names(page) == expected
    assert page["counts"] == ({"QUEUED": 5} if token != "other" else {})


def test_a_foreign_project_is_closed(edge):
    answer = edge.get(f"{ROOT}/other/jobs", headers={"Authorization": "Bearer demo"})
    assert answer.status_code == 403


def test_pages_go_on_behind_each_other_and_belong_to_one_list(edge):
    first = listed(edge, "demo/jobs", pageSize=2)
    second = listed(edge, "1001/jobs", pageSize=2, pageToken=first["nextPageToken"])
    third = listed(edge, "-/jobs", pageSize=2, pageToken=second["nextPageToken"])
    assert [*names(first), *names(second), *names(third)] == ["j4", "j3", "j2", "j1", "j0"]
    assert "nextPageToken" not in third
    assert "counts" not in second
    token = first["nextPageToken"]
    for query in ({"pageToken": token, "q": "j"}, {"pageToken": "x"}, {"pageToken": token[:-8]}):
        refused = edge.get(f"{ROOT}/demo/jobs", params={"pageSize": 2, **query})
        assert refused.status_code == 400
        assert "page_token" in refused.json()["error"]["message"]


def test_filters_may_be_repeated_and_hold_together(edge):
    both = [("state", "QUEUED"), ("state", "CANCELLED")]
    answer = edge.get(f"{ROOT}/-/jobs", params=both, headers={"Authorization": "Bearer admin"})
    assert len(answer.json()["jobs"]) == 6
    admin = {"caller": "admin"}
    assert names(listed(edge, "-/jobs", **admin, state="CANCELLED")) == ["foreign"]
    assert names(listed(edge, "-/jobs", **admin, kind="CUSTOM_JOB")) == ["foreign"]
    assert names(listed(edge, "-/jobs", **admin, creator="otto")) == ["foreign"]
    assert names(listed(edge, "-/jobs", **admin, open=True)) == ["j4", "j3", "j2", "j1", "j0"]
    assert names(listed(edge, "-/jobs", **admin, open=True, state="CANCELLED")) == []
    assert names(listed(edge, "demo/jobs", q="J3")) == ["j3"]
    assert names(listed(edge, "demo/jobs", since="2100-01-01")) == []


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"state": "LOST"}, "'QUEUED', "),
        ({"kind": "job"}, "'AI_PLATFORM_JOB', "),
        ({"since": "yesterday"}, "such as 2026-11-21T15:00:00Z"),
        ({"label": ":red"}, "label must be KEY or KEY:VALUE"),
        ({"q": "x" * 1001}, "q must have at most 1000 characters, got 1001"),
        ({"pageSize": 5001}, "pageSize"),
    ],
)
def test_a_filter_that_means_nothing_is_refused_with_what_would_be_taken(edge, query, reason):
    answer = edge.get(f"{ROOT}/demo/jobs", params=query)
    assert answer.status_code == 400
    assert reason in answer.json()["error"]["message"]


def test_a_row_is_narrow_and_whole(edge):
    [row] = listed(edge, "other/jobs", "other")["jobs"]
    number = row["uid"]
    assert row == {
        "uid": number,
        "name": f"projects/other/locations/us-central1/customJobs/{number}",
        "displayName": "foreign",
        "project": "other",
        "kind": "CUSTOM_JOB",
        "state": "CANCELLED",
        "attempt": 0,
        "restarts": 0,
        "gpus": {"NVIDIA_TESLA_T4": 2},
        "replicas": 3,
        "nodes": 0,
        "creator": "otto",
        "createTime": row["createTime"],
        "endTime": row["endTime"],
    }
