"""The native route that creates a study, with input that is large, wrong or empty."""

from types import SimpleNamespace

import pytest

from api.support import application, build_native, client, native_routes
from databases import new_database
from service.submitting import PLACE, Desk, pool
from trainshed.api.native.new_studies import new_study_router
from trainshed.store.opening import open_store
from trainshed.tuning.first_points import FAULTS_MAX

STUDY = {
    "displayName": "digits",
    "maxTrialCount": 4,
    "studySpec": {
        "metrics": [{"metricId": "acc", "goal": "MAXIMIZE"}],
        "parameters": [{"parameterId": "lr", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
    },
    "trialJobSpec": {"workerPoolSpecs": [pool()]},
}
USED = {"name": "line 2", "cells": {"lr": 0.5, "acc": 0.9}}
IGNORED = {"name": "line 3", "cells": {"lr": 7, "acc": 0.9}}


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    store = open_store(new_database(tmp_path_factory.mktemp("new-studies")))
    yield Desk(store)
    store.close()


@pytest.fixture(scope="module")
def edge(desk):
    native = build_native(dry_runs=SimpleNamespace(jobs=desk.jobs))
    app = application([], native=native_routes(new_study_router(native)), body_bytes_max=8 << 20)
    with client(app) as opened:
        yield opened


def create(edge, start, **more):
    word = "hyperparameterTuningJobs"
    body = {"collection": word, "location": PLACE, "job": STUDY, "start": start, **more}
    headers = {"Authorization": "Bearer demo"}
    path = "/trainshed/v1/projects/demo/jobs:createStudy"
    response = edge.post(path, json=body, headers=headers)
    return response.status_code, response.json()


def violations(content):
    return content["error"]["details"][0]["fieldViolations"]


def test_results_without_a_source_are_reported_too(edge, desk):
    status, content = create(edge, {"results": [USED, IGNORED]})
    message = "1 of 2 known results is used; ignored: lr is not between 0 and 1 (1)."
    assert (status, content["start"]["message"]) == (200, message)
    uid = int(content["job"]["name"].rpartition("/")[2])
    assert message in [event.message for event in desk.store.events(uid)]
    status, content = create(edge, {"results": [IGNORED]})
    assert status == 400
    assert "0 of 1 known result are used; ignored: lr is not" in content["error"]["message"]


def test_a_wide_table_of_1000_results_is_accepted(edge):
    cells = {f"column {number}": str(number) for number in range(40)}
    rows = [
        {"name": f"line {number}", "cells": {"lr": number / 1000, "acc": 0.5, **cells}}
        for number in range(1000)
    ]
    status, content = create(edge, {"results": rows})
    assert (status, content["start"]["results"]) == (200, 1000)
    status, content = create(edge, {"results": rows * 3})
    assert (status, content["error"]["message"]) == (
        400,
        "Invalid JSON payload received. The JSON has more than 100000 values.",
    )


def test_a_sentence_names_the_first_sources_only(edge):
    sources = [f"{number}.csv" for number in range(20)] + ["x" * 1000]
    content = create(edge, {"results": [USED], "sources": sources})[1]
    assert "6.csv, 7.csv and 13 more is used" in content["start"]["message"]
    content = create(edge, {"results": [USED], "sources": ["x" * 1000]})[1]
    assert len(content["start"]["message"]) < 200


def test_the_faults_of_points_are_limited(edge):
    names = {f"x{number}": 1 for number in range(500)}
    points = [{"name": f"point {number}", "parameters": names} for number in range(100)]
    status, content = create(edge, {"points": points})
    assert (status, len(violations(content))) == (400, FAULTS_MAX)
    few = [{"name": f"point {number}", "parameters": {"x": 1}} for number in range(101)]
    status, content = create(edge, {"points": few})
    assert [violation["field"] for violation in violations(content)] == ["start.points"]


def test_every_bound_of_the_request_is_named(edge):
    long = "x" * 1001
    for start, field in (
        ({"results": [{"name": long}]}, "start.results.0.name"),
        ({"results": [{"name": "a", "cells": {"lr": long}}]}, "start.results.0.cells.lr"),
        ({"sources": ["a"] * 101}, "start.sources"),
        ({"studies": ["a"] * 101}, "start.studies"),
        ({"points": [{"name": "a", "parameters": {"lr": [1]}}]}, "start.points.0.parameters.lr"),
        ({"trials": []}, "start.trials"),
    ):
        status, content = create(edge, start)
        assert status == 400, field
        assert f"{field}" in content["error"]["message"]


def test_the_same_request_id_creates_one_study(edge):
    first, again, other = (
        create(edge, {"results": [USED]}, requestId=word)[1] for word in ("a", "a", "b")
    )
    assert first == again
    assert first["job"]["name"] != other["job"]["name"]
