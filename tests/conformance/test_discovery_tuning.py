"""Tuning with the unmodified google-api-python-client: for ml v1 and aiplatform v1."""

import json
import os
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
PYTHON = HERE.parent.parent / ".venv-google" / "bin" / "python"
P = "trainingInput.hyperparameters"


@pytest.fixture(scope="module")
def results(server):
    done = subprocess.run(
        [PYTHON, "-W", "ignore", HERE / "tuning_discovery_calls.py", server.url, server.token],
        env={**os.environ, **server.certificates},
        text=True,
        capture_output=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, f"{done.stderr}\n{server.output()[-3000:]}"
    return json.loads(done.stdout)


def points(job):
    return [
        frozenset(trial["hyperparameters"].items()) for trial in job["trainingOutput"]["trials"]
    ]


def test_a_tuning_job_is_echoed_and_ends_with_its_trials(results):
    job = results["first"]
    assert job["echo"]
    assert job["state"] == "SUCCEEDED"
    output = job["trainingOutput"]
    assert output["isHyperparameterTuningJob"] is True
    assert output["hyperparameterMetricTag"] == "accuracy"
    assert output["completedTrialCount"] == "2"
    assert {trial["trialId"] for trial in output["trials"]} == {"1", "2"}
    for trial in output["trials"]:
        assert trial["state"] == "SUCCEEDED"
        assert trial["hyperparameters"].keys() == {"x", "opt"}
        value = float(trial["hyperparameters"]["x"]) * 3
        assert trial["finalMetric"] == {"trainingStep": "3", "objectiveValue": value}
        assert job["startTime"] <= trial["startTime"] <= trial["endTime"] <= job["endTime"]


def test_a_trial_that_is_stopped_early_says_so(results):
    trials = {trial["trialId"]: trial for trial in results["early"]["trainingOutput"]["trials"]}
    assert [trials[number]["hyperparameters"]["x"] for number in "1234"] == ["1", "2", "3", "30"]
    assert trials["4"]["isTrialStoppedEarly"] is True
    assert trials["4"]["finalMetric"] == {"trainingStep": "3", "objectiveValue": 90.0}
    assert not any(trials[number].get("isTrialStoppedEarly") for number in "123")


def test_a_study_goes_on_from_an_earlier_one(results):
    job = results["resumed"]["job"]
    assert job["state"] == "SUCCEEDED"
    assert job["trainingInput"]["hyperparameters"]["resumePreviousJobId"] == "first"
    assert {trial["trialId"] for trial in job["trainingOutput"]["trials"]} == {"3", "4"}
    assert len({*points(results["first"]), *points(job)}) == 4, "no point is tried again"


NO_PREVIOUS = {
    "missing": "there is no tuning job nowhere",
    "other parameters": "job first has other parameters",
    "another goal": "job first has another metric or goal",
}


@pytest.mark.parametrize("case", NO_PREVIOUS)
def test_what_cannot_be_gone_on_from_is_refused(results, case):
    status, text = results["resumed"]["refused"][case]
    assert status == 400
    assert f"{P}.resumePreviousJobId" in text
    assert NO_PREVIOUS[case] in text


#: The field that is named, and a part of the sentence.
REFUSED = {
    "bounds": ("params[0].minValue", "minValue 2 is above maxValue 1"),
    "log": ("params[0].scaleType", "a logarithmic scale needs numbers above 0"),
    "integral": ("params[0].maxValue", "maxValue 2.5 is not a whole number"),
    "twice": ("params[1].parameterName", "parameter x: the name is given twice"),
    "grid": ("params[0].type", "GRID_SEARCH takes no DOUBLE parameter"),
    "lost": ("hyperparameterMetricTag", "reports of metrics have a key of that name already"),
    "parallel": ("maxParallelTrials", "maxParallelTrials is 3, which is more than maxTrials, 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_the_field(results, case):
    field, sentence = REFUSED[case]
    status, text = results["refused"][case]
    assert status == 400
    assert f"{P}.{field}: " in text
    assert sentence in text


def test_lists_have_studies_and_neither_trials_nor_what_was_refused(results):
    assert {"first", "early", "resumed"} <= set(results["listed"])
    assert not [name for name in results["listed"] if "trial" in name or "refused" in name]


def test_a_study_of_vertex_runs_and_is_deleted(results):
    job = results["vertex"]
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    for trial in job["trials"]:
        (parameter,) = trial["parameters"]
        loss = 10 - parameter["value"] * 3
        assert trial["finalMeasurement"]["metrics"] == [{"metricId": "loss", "value": loss}]
    assert job["masked"] == ["name", "state"]
