"""``--warm-start`` and ``--enqueue``: what is sent, and what is printed of the answer."""

import json
from urllib.parse import unquote

import pytest

from cli.conftest import ELSEWHERE
from cli.standin import StandIn

NAME = "projects/local/locations/us-central1/hyperparameterTuningJobs/77"
OLDER = "projects/local/locations/us-central1/hyperparameterTuningJobs/55"
REPORT = {
    "results": 1,
    "ignored": 5,
    "reasons": [
        {
            "reason": "lr is not between 0 and 1",
            "count": 4,
            "examples": [{"name": f"line {n} of r.csv", "value": "7"} for n in (3, 4, 5)],
        },
        {
            "reason": "metric acc is missing",
            "count": 1,
            "examples": [{"name": "line 9 of r.csv"}],
        },
    ],
    "leftOut": ["seed", *(f"x{n}" for n in range(13))],
    "firstPoints": 1,
    "message": "1 of 6 known results of r.csv is used; ignored: and so on.",
}
STUDY = """\
studySpec:
  metrics: [{metricId: acc, goal: MAXIMIZE}]
  parameters: [{parameterId: lr, doubleValueSpec: {minValue: 0, maxValue: 1}}]
trialJobSpec: {workerPoolSpecs: []}
"""

CALLS = []
REFUSALS = []


def answer(verb, path, document):
    path = unquote(path)
    if verb == "GET" and path.endswith("/jobs/older"):
        return 200, {"name": OLDER, "state": "RUNNING"}
    if verb == "GET":
        return 404, {"error": {"code": 404, "status": "NOT_FOUND", "message": "no such job"}}
    CALLS.append((path, document))
    if REFUSALS:
        violations = [{"field": field, "description": "is wrong"} for field in REFUSALS]
        details = [{"fieldViolations": violations}]
        error = {"code": 400, "status": "INVALID_ARGUMENT", "message": "no", "details": details}
        return 400, {"error": error}
    if path.endswith(":dryRun"):
        plan = {"job": NAME, "attempt": 1, "engine": "local", "parts": [], "studyStart": REPORT}
        return 200, plan
    return 200, {
        "job": {"name": NAME, "state": "JOB_STATE_PENDING", "studySpec": {}},
        "start": REPORT,
    }


@pytest.fixture(autouse=True)
def server(monkeypatch, home, tmp_path):
    for name in ELSEWHERE:
        monkeypatch.delenv(name, raising=False)
    CALLS.clear()
    REFUSALS.clear()
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "r.csv").write_text("lr,acc\n0.1,0.5\n")
    with StandIn(answer) as server:
        server.note(home / "data")
        yield server


@pytest.fixture
def create(trainshed):
    def run(*flags):
        words = ("--display-name", "tuned", "--config", "study.yaml")
        return trainshed("ai", "hp-tuning-jobs", "create", *words, *flags)

    return run


FLAGS = ("--warm-start", "r.csv", "--warm-start", "older", "--enqueue", "lr=0.5")


def test_all_of_it_goes_into_one_request(create):
    run = create(*FLAGS)
    assert run.code == 0, run.err
    [(path, content)] = CALLS
    assert path == "/trainshed/v1/projects/local/jobs:createStudy"
    assert (content["collection"], content["location"]) == (
        "hyperparameterTuningJobs",
        "us-central1",
    )
    assert content["job"]["displayName"] == "tuned"
    assert content["start"] == {
        "results": [{"name": "line 2 of r.csv", "cells": {"lr": "0.1", "acc": "0.5"}}],
        "sources": ["r.csv"],
        "studies": ["55"],
        "points": [{"name": "lr=0.5", "parameters": {"lr": "0.5"}}],
    }


def test_a_long_remark_in_a_table_is_cut(create, tmp_path):
    (tmp_path / "r.csv").write_text(f"lr,acc,remark\n0.1,0.5,{'x' * 5000}\n")
    assert create(*FLAGS).code == 0
    [(_, content)] = CALLS
    [row] = content["start"]["results"]
    assert len(row["cells"]["remark"]) == 1000


def test_what_is_used_and_what_is_ignored_is_printed(create):
    run = create(*FLAGS)
    assert run.out == (
        f"name: {NAME}\n"
        "state: PENDING\n"
        "known results: 1 used, 5 ignored\n"
        "  ignored 4: lr is not between 0 and 1 (line 3 of r.csv: 7, line 4 of r.csv: 7, "
        "line 5 of r.csv: 7, ...)\n"
        "  ignored 1: metric acc is missing (line 9 of r.csv)\n"
        "  left out of the results: seed, x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10 and 2 more\n"
        "first points: 1, tried before the search\n"
    )
    run = create(*FLAGS, "--format", "json")
    assert run.json["name"] == NAME
    assert run.json["studyStart"] == REPORT


def test_a_dry_run_says_the_same(create):
    run = create(*FLAGS, "--dry-run")
    assert run.code == 0, run.err
    [(path, content)] = CALLS
    assert path == "/trainshed/v1/projects/local/jobs:dryRun"
    assert content["start"]["studies"] == ["55"]
    assert "known results: 1 used, 5 ignored\n" in run.out
    assert create(*FLAGS, "--dry-run", "--format", "json").json["studyStart"] == REPORT


def test_without_the_flags_the_request_is_googles(create):
    assert create().code in {0, 1}
    [(path, content)] = CALLS
    assert path == "/v1/projects/local/locations/us-central1/hyperparameterTuningJobs"
    assert "start" not in content


def test_jobs_of_ai_platform_take_them_too(trainshed, tmp_path):
    (tmp_path / "config.yaml").write_text("trainingInput: {hyperparameters: {}}\n")
    run = trainshed(
        "ai-platform", "jobs", "submit", "training", "tuned_1", "--config", "config.yaml",
        "--module-name", "trainer.task", "--warm-start", "r.csv",
    )  # fmt: skip
    assert run.code == 0, run.err
    [(path, content)] = CALLS
    assert path.endswith(":createStudy")
    assert content["collection"] == "jobs"
    assert "location" not in content
    assert "known results: 1 used" in run.out


def test_a_refusal_names_the_flag_and_the_point(create):
    REFUSALS.extend(
        [
            "start.points[0].lr",
            "start.points[0]",
            "start.studies[0]",
            "start.results",
            "displayName",
        ]
    )
    run = create(*FLAGS)
    assert run.code == 1
    assert run.err.splitlines()[1:] == [
        "  --enqueue lr=0.5: is wrong",
        "  --enqueue lr=0.5: is wrong",
        "  --warm-start 55: is wrong",
        "  --warm-start: is wrong",
        "  displayName: is wrong",
    ]


def test_a_file_or_a_study_that_is_not_there_is_refused_before_the_request(create):
    assert "there is no file none.csv" in create("--warm-start", "none.csv").err
    run = create("--warm-start", "nobody")
    assert (run.code, "no such job" in run.err) == (1, True)
    assert create("--enqueue", "0.5").code == 2
    assert CALLS == []


def test_values_that_json_lacks_are_sent_as_texts(create, tmp_path):
    (tmp_path / "r.json").write_text(
        json.dumps([{"parameters": {"lr": 1}, "metrics": {"acc": 1e999}}])
    )
    create("--warm-start", "r.json")
    assert CALLS[0][1]["start"]["results"][0]["metrics"] == {"acc": "inf"}


def test_too_many_results_are_refused(create, tmp_path):
    (tmp_path / "r.csv").write_text("lr,acc\n" + "0.1,0.5\n" * 10_001)
    run = create("--warm-start", "r.csv")
    assert (run.code, CALLS) == (2, [])
    assert "--warm-start must have at most 10,000 results, got 10,001" in run.err
    (tmp_path / "wide.csv").write_text(
        ",".join(f"c{n}" for n in range(99)) + "\n" + (",".join("1" * 99) + "\n") * 1000
    )
    run = create("--warm-start", "wide.csv")
    assert (run.code, CALLS) == (2, [])
    assert "at most 90,000 values, got 106,000; leave out columns or results" in run.err


def test_priors_become_labels_of_the_job(create):
    words = ("lr=0.0005", "Batch.Size=128:wide", "act=ReLU:narrow", "n=-30", "t=a:b", "w=1e+3")
    create(*[word for prior in words for word in ("--prior", prior)], "--labels", "team=a")
    [(_, content)] = CALLS
    assert content["labels"] == {
        "team": "a",
        "trainshed-prior-lr": "5e-4",
        "trainshed-prior-batch_size": "128_wide",
        "trainshed-prior-act": "relu_narrow",
        "trainshed-prior-n": "-30",
        "trainshed-prior-t": "a_b",
        "trainshed-prior-w": "1e3",
    }


@pytest.mark.parametrize("word", ["lr", "=1", "lr=", "lr=:wide"])
def test_a_prior_of_another_form_is_refused(create, word):
    run = create("--prior", word)
    assert run.code == 2
    assert (
        f"--prior must be NAME=VALUE, NAME=VALUE:narrow or NAME=VALUE:wide, got {word}" in run.err
    )
    assert CALLS == []


def test_jobs_of_ai_platform_take_priors_too(trainshed, tmp_path):
    (tmp_path / "config.yaml").write_text("trainingInput: {hyperparameters: {}}\n")
    trainshed(
        "ai-platform", "jobs", "submit", "training", "tuned_1", "--config", "config.yaml",
        "--module-name", "trainer.task", "--prior", "lr=1e-3",
    )  # fmt: skip
    [(_, content)] = CALLS
    assert content["labels"]["trainshed-prior-lr"] == "1e-3"
