"""Unmodified gcloud: ai hp-tuning-jobs, studies run to their end (docs/sources/gcloud.md 6)."""

import json
import re

import pytest
import yaml

from conformance.gcloud import needs_gcloud
from conformance.tuning_studies import UNITS, study
from e2e.support import FINAL

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), needs_gcloud]


def described(gcloud, name):
    return yaml.safe_load(gcloud("ai", "hp-tuning-jobs", "describe", name).ok().stdout)


def values(trial):
    return {parameter["parameterId"]: parameter["value"] for parameter in trial["parameters"]}


def test_a_study_is_created_runs_and_is_described_listed_and_streamed(
    real_gcloud, gcloud, server, create_study, trial_arguments
):
    done = create_study(
        real_gcloud, study(), "--max-trial-count=3", "--parallel-trial-count=2",
        "--algorithm=random-search", "--labels=team=a", name="first",
    ).ok()  # fmt: skip
    assert "submitted successfully" in done.stderr
    assert "Job State: JOB_STATE_PENDING" in done.stderr
    name = done.stdout.strip()
    server.wait_for(f"/v1/{name}", FINAL)
    job = described(gcloud, name)
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    assert job["studySpec"]["algorithm"] == "RANDOM_SEARCH"
    assert job["labels"] == {"team": "a"}
    assert job["createTime"] <= job["startTime"] <= job["endTime"]
    assert [trial["id"] for trial in job["trials"]] == ["1", "2", "3"]
    exact = gcloud("ai", "hp-tuning-jobs", "describe", name, "--format=json").ok().stdout
    arguments = trial_arguments(name)
    for trial in json.loads(exact)["trials"]:
        assert trial["state"] == "SUCCEEDED"
        assert arguments[trial["id"]] == {key: str(value) for key, value in values(trial).items()}
        final = trial["finalMeasurement"]
        assert final["stepCount"] == "3"
        assert final["metrics"] == [{"metricId": "accuracy", "value": values(trial)["x"] * 3}]
        assert ("momentum" in values(trial)) == (values(trial)["opt"] == "sgd")
    output = gcloud("ai", "hp-tuning-jobs", "list", "--format", "json").ok().stdout
    (listed,) = [job for job in json.loads(output) if job["name"] == name]
    assert "trials" not in listed
    streamed = (
        gcloud("ai", "hp-tuning-jobs", "stream-logs", name, "--polling-interval=1").ok().stdout
    )
    assert streamed.count("\tworkerpool0-0\ttold ") == 3
    for number in arguments:
        assert re.search(rf"\tservice\tTrial {number} begins with x=", streamed)
        assert re.search(rf"\tservice\tTrial {number} succeeded with accuracy ", streamed)


def test_a_grid_begins_with_the_defaults_and_ends_when_it_is_tried(gcloud, server, create_study):
    document = study(parameters=(UNITS, {**UNITS, "parameterId": "x"}))
    document["studySpec"]["parameters"][0]["integerValueSpec"]["defaultValue"] = "2"
    flags = ("--max-trial-count=9", "--parallel-trial-count=4", "--algorithm=grid-search")
    name = create_study(gcloud, document, *flags).ok().stdout.strip()
    server.wait_for(f"/v1/{name}", FINAL)
    job = described(gcloud, name)
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    points = [(values(trial)["units"], values(trial)["x"]) for trial in job["trials"]]
    assert points[0][0] == 2
    assert sorted(points) == [(1, 1), (1, 2), (2, 1), (2, 2)]


@pytest.mark.full
def test_labels_say_where_the_search_begins_and_when_trials_are_stopped(
    gcloud, server, create_study
):
    first = create_study(gcloud, study(), "--max-trial-count=2", name="earlier").ok().stdout.strip()
    server.wait_for(f"/v1/{first}", FINAL)
    number = first.rpartition("/")[2]
    labels = f"trainshed-prior-x=25e-2,trainshed-prior-opt=sgd_wide,trainshed-warm-start={number}"
    flag = f"--labels={labels},trainshed-early-stopping=asha"
    name = create_study(gcloud, study(), flag, "--max-trial-count=2").ok().stdout.strip()
    server.wait_for(f"/v1/{name}", FINAL)
    job = described(gcloud, name)
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    assert (values(job["trials"][0])["x"], values(job["trials"][0])["opt"]) == (0.25, "sgd")
    path = f"/trainshed/v1/projects/{name.split('/')[1]}/jobs/{name.rpartition('/')[2]}/study"
    status, answer = server.call("GET", path)
    assert status == 200, answer
    assert (answer["priors"], answer["stopping"]) == ("x near 25e-2, opt near sgd (wide)", "asha")
    assert answer["knownSources"] == [
        {"name": f"study earlier ({number})", "used": 2, "ignored": 0}
    ]


def test_a_study_of_the_beta_track_is_the_same(gcloud, server, create_study):
    name = create_study(gcloud, study(), name="beta", track=("beta",)).ok().stdout.strip()
    assert "/locations/us-central1/hyperparameterTuningJobs/" in name
    server.wait_for(f"/v1/{name}", FINAL)
    output = gcloud("beta", "ai", "hp-tuning-jobs", "describe", name).ok().stdout
    job = yaml.safe_load(output)
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    assert job["maxTrialCount"] == job["parallelTrialCount"] == 1, "gcloud's own defaults"
    assert len(job["trials"]) == 1


def test_a_running_study_is_cancelled_with_its_trials(gcloud, server, create_study):
    flags = ("--max-trial-count=4", "--parallel-trial-count=2")
    name = create_study(gcloud, study("hang"), *flags).ok().stdout.strip()
    server.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    done = gcloud("ai", "hp-tuning-jobs", "cancel", name).ok()
    assert "has been sent" in done.stderr
    server.wait_for(f"/v1/{name}", FINAL)
    document = described(gcloud, name)
    assert document["state"] == "JOB_STATE_CANCELLED"
    assert document["error"]["code"] == 1
    for trial in document["trials"]:
        assert trial["state"] == "INFEASIBLE"
        job = server.call("GET", f"/v1/{trial['customJob']}")[1]
        assert job["state"] == "JOB_STATE_CANCELLED"
    gcloud("ai", "hp-tuning-jobs", "cancel", name).ok()


#: How trials behave, and what is then said of each and of the study.
FAILING = {
    "fail": "workerpool0-0 exited with a non-zero status of 3",
    "misspell": "accuracy",
    "nan": "The last accuracy was nan",
}


@pytest.mark.parametrize("then", FAILING)
def test_a_study_without_a_result_says_why(gcloud, server, create_study, then):
    name = create_study(gcloud, study(then)).ok().stdout.strip()
    server.wait_for(f"/v1/{name}", FINAL)
    job = described(gcloud, name)
    assert job["state"] == "JOB_STATE_FAILED"
    (trial,) = job["trials"]
    assert trial["state"] == "INFEASIBLE"
    assert "finalMeasurement" not in trial
    assert FAILING[then] in trial["infeasibleReason"]
    assert job["error"]["message"]


def test_what_is_reported_for_a_trial_that_has_ended_changes_nothing(
    gcloud, server, create_study, own_folder
):
    document = study("report-late")
    (pool,) = document["trialJobSpec"]["workerPoolSpecs"]
    pool["containerSpec"]["args"] += ["--note", str(own_folder / "note")]
    flags = ("--max-trial-count=3", "--parallel-trial-count=1")
    name = create_study(gcloud, document, *flags).ok().stdout.strip()
    server.wait_for(f"/v1/{name}", FINAL)
    job = described(gcloud, name)
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    assert [trial["finalMeasurement"]["stepCount"] for trial in job["trials"]] == ["3"] * 3
    files = server.data_dir.glob("jobs/*/*/hypertune/output.metrics")
    reported = sum('"accuracy": "99.0"' in file.read_text() for file in files)
    refused = server.log_of(name).splitlines().count("refused")
    assert reported + refused == 2, "it was tried"
