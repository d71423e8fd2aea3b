"""Unmodified gcloud: ai hp-tuning-jobs, with studies that run to their end (contracts/gcloud.md 6).

What gcloud checks itself is not asked here: it reads the study's file strictly, and sends nothing
that it does not know.
"""

import copy
import json
import re

import pytest
import yaml

from conformance.gcloud import needs_gcloud
from conformance.tuning_trainer import IMAGE, TRAINER
from e2e.support import FINAL, log_lines

pytestmark = [pytest.mark.slow, needs_gcloud]

X = {
    "parameterId": "x",
    "scaleType": "UNIT_LOG_SCALE",
    "doubleValueSpec": {"minValue": 0.01, "maxValue": 1.0},
}
UNITS = {"parameterId": "units", "integerValueSpec": {"minValue": "1", "maxValue": "2"}}
OPT = {
    "parameterId": "opt",
    "categoricalValueSpec": {"values": ["adam", "sgd"]},
    "conditionalParameterSpecs": [
        {
            "parentCategoricalValues": {"values": ["sgd"]},
            "parameterSpec": {
                "parameterId": "momentum",
                "discreteValueSpec": {"values": [0.5, 0.9]},
            },
        }
    ],
}


def study(then="", *, parameters=(X, UNITS, OPT), **spec):
    container = {"imageUri": IMAGE, "command": ["python", "-c", TRAINER]}
    if then:
        container["args"] = ["--then", then]
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": 1,
        "containerSpec": container,
    }
    return {
        "studySpec": {
            "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
            "parameters": copy.deepcopy(list(parameters)),
            **spec,
        },
        "trialJobSpec": {
            "workerPoolSpecs": [pool],
            "baseOutputDirectory": {"outputUriPrefix": "gs://out-bkt/hp"},
        },
    }


@pytest.fixture
def create(tmp_path):
    """Create a study as the file says it; the command's answer."""

    def creating(gcloud, document, *flags, name="hp", track=()):
        (tmp_path / "hpt.yaml").write_text(yaml.safe_dump(document))
        return gcloud(
            *track, "ai", "hp-tuning-jobs", "create", "--region=us-central1",
            "--display-name", name, "--config", tmp_path / "hpt.yaml",
            "--format", "value(name)", *flags,
        )  # fmt: skip

    return creating


def described(gcloud, name):
    return yaml.safe_load(gcloud("ai", "hp-tuning-jobs", "describe", name).ok().stdout)


def told(server, name):
    """What the program of each trial was told, by trial."""
    lines = [line for line in log_lines(server, name) if line["message"].startswith("told ")]
    return {line["trial"]: json.loads(line["message"].removeprefix("told ")) for line in lines}


def values(trial):
    return {each["parameterId"]: each["value"] for each in trial["parameters"]}


def test_a_study_is_created_runs_and_is_described_listed_and_streamed(real_gcloud, server, create):
    done = create(
        real_gcloud, study(), "--max-trial-count=3", "--parallel-trial-count=2",
        "--algorithm=random-search", "--labels=team=a", name="first",
    ).ok()  # fmt: skip
    assert "submitted successfully" in done.stderr
    assert "Job State: JOB_STATE_PENDING" in done.stderr
    name = done.stdout.strip()
    server.wait_for(f"/v1/{name}", FINAL)
    found = described(real_gcloud, name)
    assert found["state"] == "JOB_STATE_SUCCEEDED"
    assert found["studySpec"]["algorithm"] == "RANDOM_SEARCH"
    assert found["labels"] == {"team": "a"}
    assert found["createTime"] <= found["startTime"] <= found["endTime"]
    assert [trial["id"] for trial in found["trials"]] == ["1", "2", "3"]
    exact = real_gcloud("ai", "hp-tuning-jobs", "describe", name, "--format=json").ok().stdout
    heard = told(server, name)
    for trial in json.loads(exact)["trials"]:
        assert trial["state"] == "SUCCEEDED"
        assert heard[trial["id"]] == {key: str(value) for key, value in values(trial).items()}
        final = trial["finalMeasurement"]
        assert final["stepCount"] == "3"
        assert final["metrics"] == [{"metricId": "accuracy", "value": values(trial)["x"] * 3}]
        assert ("momentum" in values(trial)) == (values(trial)["opt"] == "sgd")
    shown = real_gcloud("ai", "hp-tuning-jobs", "list", "--format", "json").ok().stdout
    (listed,) = [job for job in json.loads(shown) if job["name"] == name]
    assert "trials" not in listed
    streamed = (
        real_gcloud("ai", "hp-tuning-jobs", "stream-logs", name, "--polling-interval=1").ok().stdout
    )
    assert streamed.count("\tworkerpool0-0\ttold ") == 3
    for number in heard:
        assert re.search(rf"\tservice\tTrial {number} begins with x=", streamed)
        assert re.search(rf"\tservice\tTrial {number} succeeded with accuracy ", streamed)


def test_the_first_trial_has_the_defaults_and_a_grid_ends_when_it_is_tried(gcloud, server, create):
    document = study(parameters=(UNITS, {**UNITS, "parameterId": "x"}))
    document["studySpec"]["parameters"][0]["integerValueSpec"]["defaultValue"] = "2"
    flags = ("--max-trial-count=9", "--parallel-trial-count=4", "--algorithm=grid-search")
    name = create(gcloud, document, *flags).ok().stdout.strip()
    server.wait_for(f"/v1/{name}", FINAL)
    found = described(gcloud, name)
    assert found["state"] == "JOB_STATE_SUCCEEDED"
    tried = [(values(trial)["units"], values(trial)["x"]) for trial in found["trials"]]
    assert tried[0][0] == 2
    assert sorted(tried) == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_a_study_of_the_beta_track_is_the_same(gcloud, server, create):
    name = create(gcloud, study(), name="beta", track=("beta",)).ok().stdout.strip()
    assert "/locations/us-central1/hyperparameterTuningJobs/" in name
    server.wait_for(f"/v1/{name}", FINAL)
    shown = gcloud("beta", "ai", "hp-tuning-jobs", "describe", name).ok().stdout
    found = yaml.safe_load(shown)
    assert found["state"] == "JOB_STATE_SUCCEEDED"
    assert found["maxTrialCount"] == found["parallelTrialCount"] == 1, "gcloud's own defaults"
    assert len(found["trials"]) == 1


def test_a_running_study_is_cancelled_with_its_trials(gcloud, server, create):
    flags = ("--max-trial-count=4", "--parallel-trial-count=2")
    name = create(gcloud, study("hang"), *flags).ok().stdout.strip()
    server.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    done = gcloud("ai", "hp-tuning-jobs", "cancel", name).ok()
    assert "has been sent" in done.stderr
    server.wait_for(f"/v1/{name}", FINAL)
    found = described(gcloud, name)
    assert found["state"] == "JOB_STATE_CANCELLED"
    assert found["error"]["code"] == 1
    for trial in found["trials"]:
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
def test_a_study_without_a_result_says_why(gcloud, server, create, then):
    name = create(gcloud, study(then)).ok().stdout.strip()
    server.wait_for(f"/v1/{name}", FINAL)
    found = described(gcloud, name)
    assert found["state"] == "JOB_STATE_FAILED"
    (trial,) = found["trials"]
    assert trial["state"] == "INFEASIBLE"
    assert "finalMeasurement" not in trial
    assert FAILING[then] in trial["infeasibleReason"]
    assert found["error"]["message"]


def changed(number=0, **fields):
    """A study of which one parameter is another."""
    document = study()
    document["studySpec"]["parameters"][number] |= fields
    return document


def parent_of_nothing():
    document = study()
    condition = document["studySpec"]["parameters"][2]["conditionalParameterSpecs"][0]
    condition["parentCategoricalValues"] = {"values": ["rmsprop"]}
    return document


MANY = [float(value) for value in range(1001)]
P = "studySpec.parameters[{}]"
#: The document, the flags, the field that is named and a part of the sentence.
REFUSED = {
    "bounds reversed": (
        changed(doubleValueSpec={"minValue": 1.0, "maxValue": 0.1}), (),
        f"{P.format(0)}.doubleValueSpec.minValue", "minValue 1 is above maxValue 0.1",
    ),
    "log scale with zero": (
        changed(doubleValueSpec={"minValue": 0.0, "maxValue": 0.1}), (),
        f"{P.format(0)}.scaleType", "a logarithmic scale needs numbers above 0",
    ),
    "1,001 discrete values": (
        study(parameters=(X, {"parameterId": "d", "discreteValueSpec": {"values": MANY}})), (),
        f"{P.format(1)}.discreteValueSpec.values", "1001 discrete values are too many",
    ),
    "duplicate ids": (
        study(parameters=(X, X)), (),
        f"{P.format(1)}.parameterId", "parameter x: the name is given twice",
    ),
    "a parent value that does not exist": (
        parent_of_nothing(), (),
        f"{P.format(2)}.conditionalParameterSpecs[0]", "rmsprop is no value of its parent opt",
    ),
    "grid search over a double": (
        study(), ("--algorithm=grid-search",),
        f"{P.format(0)}.doubleValueSpec", "GRID_SEARCH takes no DOUBLE parameter",
    ),
    "a metric that hypertune loses": (
        study(metrics=[{"metricId": "global_step", "goal": "MAXIMIZE"}]), (),
        "studySpec.metrics[0].metricId", "reports of metrics have a key of that name already",
    ),
    "more parallel than total trials": (
        study(), ("--max-trial-count=2", "--parallel-trial-count=3"),
        "parallelTrialCount", "parallelTrialCount is 3, which is more than maxTrialCount, 2",
    ),
    "no values": (
        study(parameters=(X, {"parameterId": "units"})), (),
        P.format(1), "a parameter needs its values",
    ),
    "early stopping by two metrics": (
        study(
            metrics=[{"metricId": "accuracy"}, {"metricId": "loss"}],
            medianAutomatedStoppingSpec={},
        ), (),
        "studySpec.medianAutomatedStoppingSpec", "the study has 2 objectives",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_the_field_and_starts_nothing(gcloud, create, case):
    document, flags, field, sentence = REFUSED[case]
    done = create(gcloud, document, *flags, name="refused")
    assert done.code == 1
    assert "INVALID_ARGUMENT" in done.stderr
    violations = [line.strip() for line in done.stderr.splitlines()]
    assert f"field: {field}" in violations
    assert sentence in " ".join(violations)
    listed = gcloud(
        "ai", "hp-tuning-jobs", "list", "--filter", "displayName=refused", "--format", "value(name)"
    )
    assert listed.ok().stdout.strip() == ""


def test_all_faults_of_a_file_are_told_at_once(gcloud, create):
    document = changed(doubleValueSpec={"minValue": 1.0, "maxValue": 0.1})
    document["studySpec"]["metrics"][0]["metricId"] = "two words"
    done = create(gcloud, document, "--max-trial-count=1", "--parallel-trial-count=2")
    assert done.code == 1
    fields = [line for line in done.stderr.splitlines() if line.strip().startswith("field: ")]
    assert len(fields) == len(set(fields)) == 3
