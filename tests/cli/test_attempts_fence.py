"""``trainshed attempts fence``: what is sent, and what is said."""

import json

import pytest

from cli.standin import StandIn

UID = "4611686018427387904"
JOB = "projects/demo/jobs/census_1"
MESSAGE = f"attempt 2 of {JOB} counts as lost; its story says what the job does next"
FENCED = {"job": JOB, "attempt": 2, "engine": "cluster", "message": MESSAGE}


def answer(verb, path, _document):
    if verb == "GET":
        return 200, {"name": JOB, "uid": UID}
    if not path.endswith(f"/{UID}/2:fence"):
        message = "there is no job with the number 7"
        return 404, {"error": {"code": 404, "status": "NOT_FOUND", "message": message}}
    return 200, FENCED


@pytest.fixture
def server(monkeypatch, home):
    for name in ("TRAINSHED_URL", "TRAINSHED_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with StandIn(answer) as server:
        server.note(home / "data")
        yield server


def test_the_word_is_sent_and_the_story_is_named(trainshed, server):
    run = trainshed("attempts", "fence", f"{UID}/2")
    assert run.code == 0, run.err
    assert run.out.splitlines() == [MESSAGE]
    assert f"trainshed jobs events {JOB}" in run.err
    path = f"/trainshed/v1/attempts/{UID}/2:fence"
    assert server.requests == [("POST", path, "Bearer tsd_admin", {})]


@pytest.mark.usefixtures("server")
def test_scripts_get_it_as_json(trainshed):
    run = trainshed("attempts", "fence", f"{UID}/2", "--format", "json")
    assert json.loads(run.out) == FENCED


@pytest.mark.parametrize("job", ["census_1", JOB])
def test_a_job_may_be_named(trainshed, server, job):
    assert trainshed("attempts", "fence", f"{job}/2", "--project", "demo").code == 0
    assert [(verb, path) for verb, path, *_ in server.requests] == [
        ("GET", "/trainshed/v1/projects/demo/jobs/census_1"),
        ("POST", f"/trainshed/v1/attempts/{UID}/2:fence"),
    ]


@pytest.mark.usefixtures("server")
def test_the_servers_refusal_is_shown(trainshed):
    run = trainshed("attempts", "fence", "7/1")
    assert run.code == 1
    assert "there is no job with the number 7" in run.err


@pytest.mark.parametrize("text", ["7", "7/", "7/0", "/1", "7/x", "7/-1", "7/1234567890"])
def test_what_is_no_attempt_is_refused_here(trainshed, server, text):
    run = trainshed("attempts", "fence", text)
    assert run.code == 2
    assert "UID/ATTEMPT" in run.err
    assert server.requests == []
