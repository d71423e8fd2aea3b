"""Studies on this machine: real programs that report with Google's own cloudml-hypertune."""

import json

import pytest

from e2e.support import (
    FINAL,
    IMAGE,
    PARENT,
    PROJECT,
    good,
    log_lines,
    native,
    serving,
    wait_until,
)

TUNING = f"/v1/{PARENT}/hyperparameterTuningJobs"

#: Reports a learning curve, and says what it was told.
TRAINER = """\
import argparse, json, os, sys, time
import hypertune
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--opt")
parser.add_argument("--job-dir")
args = parser.parse_args()
spec = json.loads(os.environ.get("CLUSTER_SPEC", "{}"))
config = json.loads(os.environ.get("TF_CONFIG", "{}"))
print("told", json.dumps({
    "trial": os.environ["CLOUD_ML_TRIAL_ID"],
    "job": os.environ["CLOUD_ML_JOB_ID"],
    "spec": spec.get("task", {}).get("trial"),
    "config": config.get("task", {}).get("trial"),
    "model": os.environ.get("AIP_MODEL_DIR"),
    "dir": args.job_dir,
    "lr": args.lr,
}), flush=True)
if config.get("task", {}).get("type", "chief") in ("chief", "master"):
    tuner = hypertune.HyperTune()
    for step in range(1, 6):
        value = 1 - (args.lr - 0.3) ** 2 - 0.5 / step
        tuner.report_hyperparameter_tuning_metric("accuracy", value, step)
        time.sleep({pause})
"""


def study(code=TRAINER, *, trials=4, parallel=2, workers=0, pause=0.02, **spec):
    container = {
        "imageUri": IMAGE,
        "command": ["python", "-c", code.replace("{pause}", str(pause))],
    }
    pools = [
        {
            "machineSpec": {"machineType": "n1-standard-4"},
            "replicaCount": str(count),
            "containerSpec": container,
        }
        for count in (1, workers)
        if count
    ]
    return {
        "displayName": "digits",
        "maxTrialCount": trials,
        "parallelTrialCount": parallel,
        "studySpec": {
            "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
            "parameters": [
                {
                    "parameterId": "lr",
                    "scaleType": "UNIT_LINEAR_SCALE",
                    "doubleValueSpec": {"minValue": 0.0, "maxValue": 1.0},
                },
                {"parameterId": "opt", "categoricalValueSpec": {"values": ["adam", "sgd"]}},
            ],
            **spec,
        },
        "trialJobSpec": {
            "workerPoolSpecs": pools,
            "baseOutputDirectory": {"outputUriPrefix": "gs://tuning-bucket/out"},
        },
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("tuning"), "--anonymous") as server:
        make_bucket(server)
        yield server


def make_bucket(server):
    good(server.call("POST", f"/storage/v1/b?project={PROJECT}", {"name": "tuning-bucket"}))


def create(server, document):
    return good(server.call("POST", TUNING, document))["name"]


def ended(server, name, timeout_s=120, meanwhile=lambda: None):
    """``meanwhile`` is called each time before the state is read."""

    def look():
        meanwhile()
        job = good(server.call("GET", f"/v1/{name}"))
        return job if job["state"] in FINAL else None

    return wait_until(look, lambda: native(server, name, "/explain"), timeout_s=timeout_s)


def settings_by_trial(server, name):
    """What the programs of all replicas of all trials were told, by trial."""
    settings = {}
    for line in log_lines(server, name):
        if line["message"].startswith("told "):
            settings.setdefault(line["trial"], []).append(json.loads(line["message"][5:]))
    return settings


def test_a_study_of_vertex_runs_to_its_end(server):
    name = create(server, study())
    tuning_job = ended(server, name)
    assert tuning_job["state"] == "JOB_STATE_SUCCEEDED"
    assert [trial["id"] for trial in tuning_job["trials"]] == ["1", "2", "3", "4"]
    by_trial = settings_by_trial(server, name)
    for trial in tuning_job["trials"]:
        assert trial["state"] == "SUCCEEDED"
        assert trial["finalMeasurement"]["stepCount"] == "5"
        values = {parameter["parameterId"]: parameter["value"] for parameter in trial["parameters"]}
        (settings,) = by_trial[trial["id"]]
        assert settings["trial"] == settings["spec"] == trial["id"]
        assert settings["job"] == name.rpartition("/")[2]
        assert settings["model"].endswith(f"/out/{trial['id']}/model/")
        assert settings["lr"] == values["lr"]
        assert trial["finalMeasurement"]["metrics"] == [
            {"metricId": "accuracy", "value": pytest.approx(0.9 - (values["lr"] - 0.3) ** 2)}
        ]
        assert [measurement["stepCount"] for measurement in trial["measurements"]] == list("12345")
        job = good(server.call("GET", f"/v1/{trial['customJob']}"))
        assert job["displayName"] == f"digits-trial-{trial['id']}"
        base = job["jobSpec"]["baseOutputDirectory"]["outputUriPrefix"]
        assert base == f"gs://tuning-bucket/out/{trial['id']}/"


def test_a_study_begins_from_another_and_from_its_first_points(server):
    """Our command line sends it to a route of its own, gcloud and the SDKs as a label."""
    older = create(server, study(trials=3))
    ended(server, older)
    points = [{"name": "lr=0.75", "parameters": {"lr": "0.75", "opt": "sgd"}}]
    start = {"studies": [older.rpartition("/")[2]], "points": points}
    word, place = "hyperparameterTuningJobs", "us-central1"
    body = {"collection": word, "location": place, "job": study(trials=2), "start": start}
    answer = good(server.call("POST", f"/trainshed/v1/projects/{PROJECT}/jobs:createStudy", body))
    name, report = answer["job"]["name"], answer["start"]
    assert (report["results"], report["ignored"], report["firstPoints"]) == (3, 0, 1)
    assert ended(server, name)["state"] == "JOB_STATE_SUCCEEDED"
    trials = native(server, name, "/trials")["trials"]
    assert [trial["number"] for trial in trials] == [1, 2]
    assert trials[0]["parameters"] == {"lr": 0.75, "opt": "sgd"}
    assert [trial.get("origin") for trial in trials] == ["FIRST_POINT", None]
    tried = {json.dumps(t["parameters"]) for t in native(server, older, "/trials")["trials"]}
    assert json.dumps(trials[1]["parameters"]) not in tried
    messages = [event["message"] for event in native(server, name, "/events")["events"]]
    assert f"3 known results of study digits ({start['studies'][0]}) are used." in messages
    assert "Trial 1 begins with lr=0.75, opt=sgd, as enqueued (point 1)." in messages
    described = native(server, name, "/study")
    assert (described["knownResults"], described["firstPoints"]) == (3, 1)
    label = {"trainshed-warm-start": start["studies"][0]}
    by_label = create(server, {**study(trials=1, parallel=1), "labels": label})
    assert native(server, by_label, "/study")["knownResults"] == 3
    assert good(server.call("GET", f"/v1/{by_label}"))["labels"] == label
    ended(server, by_label)


def test_lists_leave_trials_out(server):
    name = create(server, study(trials=1, parallel=1))
    ended(server, name)
    jobs = good(server.call("GET", TUNING))["hyperparameterTuningJobs"]
    assert name in {job["name"] for job in jobs}
    assert not any("trials" in job for job in jobs)


def test_trials_may_be_clusters(server):
    name = create(server, study(trials=2, workers=2))
    job = ended(server, name)
    assert {trial["state"] for trial in job["trials"]} == {"SUCCEEDED"}
    by_trial = settings_by_trial(server, name)
    for trial in ("1", "2"):
        assert len(by_trial[trial]) == 3
        assert {settings["config"] for settings in by_trial[trial]} == {trial}
        assert len({settings["lr"] for settings in by_trial[trial]}) == 1


def test_the_log_of_one_trial(server):
    name = create(server, study(trials=2))
    ended(server, name)
    lines = log_lines(server, name, trial="2")
    assert lines
    assert {line["trial"] for line in lines} == {"2"}
    number = name.rpartition("/")[2]
    log_filter = f'resource.type="ml_job" AND resource.labels.job_id="{number}"'
    body = {"resourceNames": [f"projects/{PROJECT}"], "orderBy": "timestamp asc", "pageSize": 1000}
    entries = good(server.call("POST", "/v2/entries:list", {**body, "filter": log_filter}))[
        "entries"
    ]
    label = "ml.googleapis.com/trial_id"
    assert {entry.get("labels", {}).get(label) for entry in entries} == {None, "1", "2"}
    only = f'{log_filter} AND labels."{label}"="1"'
    some = good(server.call("POST", "/v2/entries:list", {**body, "filter": only}))["entries"]
    assert some
    assert {entry["labels"][label] for entry in some} == {"1"}


def test_a_tuning_job_of_ai_platform(server):
    document = {
        "jobId": "census_1",
        "trainingInput": {
            "region": "us-central1",
            "scaleTier": "CUSTOM",
            "masterType": "n1-standard-4",
            "jobDir": "gs://tuning-bucket/census",
            "masterConfig": {
                "imageUri": IMAGE,
                "containerCommand": ["python", "-c", TRAINER.replace("{pause}", "0.01")],
            },
            "hyperparameters": {
                "goal": "MAXIMIZE",
                "hyperparameterMetricTag": "accuracy",
                "maxTrials": 3,
                "maxParallelTrials": 3,
                "enableTrialEarlyStopping": True,
                "params": [
                    {
                        "parameterName": "lr",
                        "type": "DOUBLE",
                        "minValue": 0.001,
                        "maxValue": 1,
                        "scaleType": "UNIT_LOG_SCALE",
                    },
                    {
                        "parameterName": "opt",
                        "type": "CATEGORICAL",
                        "categoricalValues": ["adam", "sgd"],
                    },
                ],
            },
        },
    }
    jobs = f"/v1/projects/{PROJECT}/jobs"
    good(server.call("POST", jobs, document))
    name = f"projects/{PROJECT}/jobs/census_1"

    def look():
        job = good(server.call("GET", f"/v1/{name}"))
        return job if job["state"] in {"SUCCEEDED", "FAILED", "CANCELLED"} else None

    job = wait_until(look, timeout_s=120)
    assert job["state"] == "SUCCEEDED"
    output = job["trainingOutput"]
    assert output["completedTrialCount"] == "3"
    assert output["isHyperparameterTuningJob"] is True
    assert {trial["trialId"] for trial in output["trials"]} == {"1", "2", "3"}
    by_trial = settings_by_trial(server, name)
    for trial in output["trials"]:
        (settings,) = by_trial[trial["trialId"]]
        assert settings["job"] == "census_1"
        assert settings["config"] == trial["trialId"]
        assert settings["dir"].endswith(f"/census/{trial['trialId']}")
        assert float(trial["hyperparameters"]["lr"]) == settings["lr"]
        assert trial["finalMetric"]["trainingStep"] == "5"
    page = good(server.call("GET", jobs)).get("jobs", [])
    assert [job["jobId"] for job in page] == ["census_1"], "no trial is in a list"


def test_a_trial_without_the_metric_says_what_was_found_instead(server):
    wrong = TRAINER.replace('"accuracy"', '"acc"')
    name = create(server, study(wrong, trials=3, parallel=1))
    job = ended(server, name)
    assert job["state"] == "JOB_STATE_FAILED"
    reasons = [trial["infeasibleReason"] for trial in job["trials"]]
    assert len(reasons) == 3
    for reason in reasons:
        assert "accuracy" in reason
        assert "acc" in reason.replace("accuracy", "")


def test_cancelling_ends_all_trials(server):
    name = create(server, study(trials=4, pause=600))
    wait_until(lambda: "2 running" in native(server, name, "/explain")["message"])
    good(server.call("POST", f"/v1/{name}:cancel", {}))
    job = ended(server, name)
    assert job["state"] == "JOB_STATE_CANCELLED"
    assert {trial["state"] for trial in job["trials"]} == {"INFEASIBLE"}


@pytest.mark.full  # test_tuning_failpoints.py kills the server at each place
@pytest.mark.slow
def test_a_study_outlives_its_server(tmp_path):
    with serving(tmp_path, "--anonymous") as server:
        make_bucket(server)
        name = create(server, study(trials=6, pause=0.4))
        wait_until(lambda: len(settings_by_trial(server, name)) >= 2)
        for _ in range(2):
            server.kill()
            server.start()
        job = ended(server, name)
        assert job["state"] == "JOB_STATE_SUCCEEDED"
        assert [trial["id"] for trial in job["trials"]] == ["1", "2", "3", "4", "5", "6"]
        assert {trial["state"] for trial in job["trials"]} == {"SUCCEEDED"}
        assert all(len(settings) == 1 for settings in settings_by_trial(server, name).values()), (
            "a trial ran twice"
        )


#: Saves a checkpoint at each of 12 steps and goes on from the newest one.  Trial 1 is the best one
#: and runs to its end; the first attempts of the others wait after step 4 until they are stopped.
RESUMING = """\
import os, time
import hypertune
from trainshed_trainer import checkpoint_saver, latest_checkpoint
trial = int(os.environ["CLOUD_ML_TRIAL_ID"])
saver = checkpoint_saver()
newest = latest_checkpoint(pattern="checkpoint-*")
done = int(newest.name.partition("-")[2]) if newest else 0
tuner = hypertune.HyperTune()
for step in range(done + 1, 13):
    print("trains", trial, step, flush=True)
    saver.save(step, lambda out: out.write(b"weights"))
    tuner.report_hyperparameter_tuning_metric("accuracy", 1 / trial, step)
    while trial > 1 and not newest and step == 4:
        time.sleep(0.05)
"""


@pytest.mark.full  # tests/controller/test_paused_trials.py: the same with a simulated engine
@pytest.mark.slow
def test_a_paused_trial_goes_on_from_its_checkpoint_to_its_end(server):
    check_paused_trials(server)


def check_paused_trials(server, code=RESUMING, meanwhile=lambda _name: None):
    """Run a study that pauses trials 2 to 9 and resumes 2 and 3; no step is trained twice.

    ``meanwhile`` is called with the name of the study until it ends.
    """
    document = study(code, trials=9, parallel=3)
    label = {"trainshed-early-stopping": "asha-3-3"}
    name = create(server, {**document, "labels": label})
    tuning_job = ended(server, name, timeout_s=240, meanwhile=lambda: meanwhile(name))
    assert tuning_job["state"] == "JOB_STATE_SUCCEEDED"
    steps = {trial["id"]: trial["finalMeasurement"]["stepCount"] for trial in tuning_job["trials"]}
    assert steps == {str(n): "12" if n <= 3 else "4" for n in range(1, 10)}
    trained = [line["message"] for line in log_lines(server, name) if "trains" in line["message"]]
    assert sorted(trained) == sorted(
        f"trains {n} {step}" for n in range(1, 10) for step in range(1, 1 + int(steps[str(n)]))
    ), "no step is trained twice"
    trials = {trial["number"]: trial for trial in native(server, name, "/trials")["trials"]}
    assert {n for n, trial in trials.items() if trial["stoppedEarly"]} == set(range(4, 10))
    assert {trials[n]["earlyStop"]["rung"] for n in range(4, 10)} == {1}
    events = native(server, name, "/events")["events"]
    kinds = [
        (event["kind"], event["data"]["trial"]) for event in events if "TRIAL_" in event["kind"]
    ]
    assert {number for kind, number in kinds if kind == "TRIAL_PAUSED"} == set(range(2, 10))
    assert [number for kind, number in kinds if kind == "TRIAL_RESUMED"] == [2, 3]
