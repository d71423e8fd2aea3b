"""Jobs for simulated nodes, whose arguments say what they do."""

from e2e.support import IMAGE, PROJECT, good

T4 = "NVIDIA_TESLA_T4"
STUDIES = f"/v1/projects/{PROJECT}/locations/us-central1/hyperparameterTuningJobs"


def simulated_job(name, *words, gpus=1, workers=0, machine="n1-standard-8", **more):
    """A custom job of Vertex; ``words`` are those of simulated_server.py."""
    spec = {"machineType": machine}
    if gpus:
        spec |= {"acceleratorType": T4, "acceleratorCount": gpus}
    container = {"imageUri": IMAGE, "command": ["python", "-m", "train"], "args": list(words)}
    pools = [
        {"machineSpec": spec, "replicaCount": str(count), "containerSpec": container}
        for count in (1, workers)
        if count
    ]
    return {"displayName": name, "jobSpec": {"workerPoolSpecs": pools}, **more}


def study(name, *, trials=6, parallel=3):
    """A study of a learning rate and a number of layers."""
    return {
        "displayName": name,
        "maxTrialCount": trials,
        "parallelTrialCount": parallel,
        "studySpec": {
            "algorithm": "RANDOM_SEARCH",
            "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
            "parameters": [
                {
                    "parameterId": "lr",
                    "doubleValueSpec": {"minValue": 1e-4, "maxValue": 1.0},
                    "scaleType": "UNIT_LOG_SCALE",
                },
                {"parameterId": "layers", "integerValueSpec": {"minValue": 1, "maxValue": 4}},
            ],
        },
        "trialJobSpec": simulated_job(name)["jobSpec"],
    }


def create_study(server, document):
    """Start a study; return its full name."""
    return good(server.call("POST", STUDIES, document))["name"]
