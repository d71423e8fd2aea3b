"""Tuning with google-api-python-client, run by a Python that has it; prints one JSON object.

Nothing of Trainshed is imported here (docs/sources/vertex.md 7).
"""

import json
import sys
import time

from google.oauth2.credentials import Credentials
from googleapiclient import discovery
from googleapiclient.errors import HttpError
from tuning_trainer import IMAGE, TRAINER

URL, TOKEN = sys.argv[1:]
PARENT = "projects/demo-proj"
X = {
    "parameterName": "x",
    "type": "DOUBLE",
    "minValue": 0.01,
    "maxValue": 1.0,
    "scaleType": "UNIT_LOG_SCALE",
}
OPT = {"parameterName": "opt", "type": "CATEGORICAL", "categoricalValues": ["adam", "sgd"]}


def service(name):
    return discovery.build(
        name, "v1", client_options={"api_endpoint": URL}, credentials=Credentials(TOKEN)
    )


JOBS = service("ml").projects().jobs()


def body(job, then="", **spec):
    master = {"imageUri": IMAGE, "containerCommand": ["python", "-c", TRAINER]}
    if then:
        master["containerArgs"] = ["--then", then]
    hyperparameters = {
        "goal": "MAXIMIZE",
        "hyperparameterMetricTag": "accuracy",
        "maxTrials": 2,
        "maxParallelTrials": 2,
        "params": [X, OPT],
        **spec,
    }
    return {
        "jobId": job,
        "trainingInput": {
            "scaleTier": "CUSTOM",
            "masterType": "n1-standard-4",
            "masterConfig": master,
            "region": "us-central1",
            "jobDir": f"gs://out-bkt/{job}",
            "hyperparameters": hyperparameters,
        },
    }


def ended(get):
    while not (job := get.execute()).get("endTime"):
        time.sleep(0.3)
    return job


def run(job, then="", **spec):
    document = body(job, then, **spec)
    created = JOBS.create(parent=PARENT, body=document).execute()
    final_job = ended(JOBS.get(name=f"{PARENT}/jobs/{job}"))
    return {**final_job, "echo": created["trainingInput"] == document["trainingInput"]}


def early():
    """Trial 4 is by far the worst of a grid, and would hang."""
    values = {"parameterName": "x", "type": "DISCRETE", "discreteValues": [1, 2, 3, 30]}
    return run(
        "early",
        "hang-above-3",
        params=[values],
        algorithm="GRID_SEARCH",
        goal="MINIMIZE",
        maxTrials=4,
        maxParallelTrials=1,
        enableTrialEarlyStopping=True,
    )


def resumed():
    """Runs after ``first``, which it goes on from; and what cannot be gone on from."""
    wrong = {
        "missing": body("not_there", resumePreviousJobId="nowhere"),
        "other parameters": body("other", resumePreviousJobId="first", params=[X]),
        "another goal": body("goal", resumePreviousJobId="first", goal="MINIMIZE"),
    }
    return {
        "job": run("resumed", resumePreviousJobId="first"),
        "refused": {name: refusal(document) for name, document in wrong.items()},
    }


def refusal(document):
    try:
        JOBS.create(parent=PARENT, body=document).execute()
    except HttpError as error:
        return [error.resp.status, str(error)]
    return None


def refused():
    bad = {
        "bounds": {"params": [{**X, "minValue": 2.0}]},
        "log": {"params": [{**X, "minValue": 0.0}]},
        "integral": {"params": [{**X, "type": "INTEGER", "minValue": 1, "maxValue": 2.5}]},
        "twice": {"params": [X, X]},
        "grid": {"algorithm": "GRID_SEARCH"},
        "lost": {"hyperparameterMetricTag": "checkpoint_path"},
        "parallel": {"maxParallelTrials": 3},
    }
    return {name: refusal(body("refused_study", **spec)) for name, spec in bad.items()}


def vertex():
    jobs = service("aiplatform").projects().locations().hyperparameterTuningJobs()
    parent = f"{PARENT}/locations/us-central1"
    container = {"imageUri": IMAGE, "command": ["python", "-c", TRAINER]}
    pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "1"}
    document = {
        "displayName": "discovered",
        "maxTrialCount": 2,
        "parallelTrialCount": 2,
        "studySpec": {
            "metrics": [{"metricId": "loss", "goal": "MINIMIZE"}],
            "parameters": [
                {"parameterId": "x", "doubleValueSpec": {"minValue": 0.1, "maxValue": 1.0}}
            ],
        },
        "trialJobSpec": {"workerPoolSpecs": [{**pool, "containerSpec": container}]},
    }
    created = jobs.create(parent=parent, body=document).execute()
    job = ended(jobs.get(name=created["name"]))
    masked = jobs.list(parent=parent, readMask="name,state", pageSize=1).execute()
    jobs.delete(name=created["name"]).execute()
    return {**job, "masked": sorted(masked["hyperparameterTuningJobs"][0])}


def main():
    results = {"first": run("first"), "early": early(), "refused": refused(), "vertex": vertex()}
    results["resumed"] = resumed()
    listed = JOBS.list(parent=PARENT, filter="jobId:*").execute()
    results["listed"] = [job["jobId"] for job in listed["jobs"]]
    sys.stdout.write(json.dumps(results) + "\n")


main()
