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
def asked(trainshed):
    """Runs a command beside a server; gives what it printed, and the paths that it asked for."""

    def run(answer, *words):
        with StandIn(answer) as server:
            found = trainshed("plan", *words, "--url", server.url, "--project", "p")
        return found, [path for _, path, _, _ in server.seen]

    return run


def test_calibrations_are_listed_without_their_documents(asked):
    found, paths = asked(calibrations, "calibrations")
    assert found.code == 0, found.err
    words = found.out.splitlines()[-1].split()
    assert (*words[:3], *words[-3:]) == (
        "k1", "3", "2026-11-24", "trainer.task", "n1-standard-8", "CPU",
    )  # fmt: skip
    assert paths == [PATH]


def test_one_calibration_is_asked_for_alone(asked):
    found, paths = asked(calibrations, "calibrations", "k1")
    assert (found.code, found.out.rstrip()) == (0, "schema = 1")
    assert paths == [f"{PATH}/k1"]


def test_programs_get_the_documents_as_well(asked):
    found, _ = asked(calibrations, "calibrations", "--format", "json")
    assert json.loads(found.out) == [{**HEAD, "document": "schema = 1\n"}]


def test_a_key_that_is_none_is_a_sentence(asked):
    found, _ = asked(calibrations, "calibrations", "a/b")
    assert found.code == 2
    assert "a/b: no calibration of this project has this key" in found.err


def test_all_outcomes_are_counted_however_many_pages_they_have(asked):
    told = [
        {"job": name, "inside": inside, "class": "one", "sentence": f"{name} ran"}
        for name, inside in (("a", True), ("b", False), ("c", True))
    ]
    left = [{"outcomes": told[:2], "nextPageToken": "t"}, {"outcomes": told[2:]}]
    found, paths = asked(lambda *_: (200, left.pop(0)), "score")
    assert found.code == 0, found.err
    assert found.out.splitlines() == ["2 of 3 jobs inside their 80 % intervals.", "b: b ran."]
    assert len(paths) == 2
