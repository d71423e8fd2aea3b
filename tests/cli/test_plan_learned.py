"""``trainshed plan calibrations`` and ``plan score``: what a server has learned, page by page."""

import json

import pytest

from cli.standin import StandIn

HEAD = {
    "key": "k1",
    "jobs": 3,
    "updateTime": "2026-11-24T01:02:03Z",
    "model": "trainer.task",
    "machineType": "n1-standard-8",
    "accelerator": "CPU",
}
PATH = "/trainshed/v1/projects/p/calibrations"


def calibrations(_verb, path, _document):
    if path == PATH:
        return 200, {"calibrations": [HEAD]}
    if path == f"{PATH}/k1":
        return 200, {**HEAD, "document": "schema = 1\n"}
    return 404, {"error": {"code": 404, "message": "no", "status": "NOT_FOUND"}}


@pytest.fixture
def run_plan(trainshed):
    """Runs a command beside a server; gives what it printed, and the paths that it asked for."""

    def query(answer, *words):
        with StandIn(answer) as server:
            run = trainshed("plan", *words, "--url", server.url, "--project", "p")
        return run, [path for _, path, _, _ in server.requests]

    return query


def test_calibrations_are_listed_without_their_documents(run_plan):
    run, paths = run_plan(calibrations, "calibrations")
    assert run.code == 0, run.err
    words = run.out.splitlines()[-1].split()
    assert (*words[:3], *words[-3:]) == (
        "k1", "3", "2026-11-24", "trainer.task", "n1-standard-8", "CPU",
    )  # fmt: skip
    assert paths == [PATH]


def test_one_calibration_is_asked_for_alone(run_plan):
    run, paths = run_plan(calibrations, "calibrations", "k1")
    assert (run.code, run.out.rstrip()) == (0, "schema = 1")
    assert paths == [f"{PATH}/k1"]


def test_programs_get_the_documents_as_well(run_plan):
    run, _ = run_plan(calibrations, "calibrations", "--format", "json")
    assert json.loads(run.out) == [{**HEAD, "document": "schema = 1\n"}]


def test_a_key_that_is_none_is_a_sentence(run_plan):
    run, _ = run_plan(calibrations, "calibrations", "a/b")
    assert run.code == 2
    assert "has no calibration a/b; list them with: trainshed plan calibrations" in run.err


def test_all_outcomes_are_counted_however_many_pages_they_have(run_plan):
    outcomes = [
        {"job": name, "inside": inside, "class": "one", "sentence": f"{name} ran"}
        for name, inside in (("a", True), ("b", False), ("c", True))
    ]
    left = [{"outcomes": outcomes[:2], "nextPageToken": "t"}, {"outcomes": outcomes[2:]}]
    run, paths = run_plan(lambda *_: (200, left.pop(0)), "score")
    assert run.code == 0, run.err
    assert run.out.splitlines() == ["2 of 3 jobs inside their 80 % intervals.", "b: b ran."]
    assert len(paths) == 2
