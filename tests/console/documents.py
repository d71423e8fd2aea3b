"""Jobs whose arguments say what they do: on simulated nodes, and as a real program."""

import copy
from pathlib import Path

import yaml

from e2e.support import IMAGE, PROJECT, good

T4 = "NVIDIA_TESLA_T4"
STUDIES = f"/v1/projects/{PROJECT}/locations/us-central1/hyperparameterTuningJobs"

#: Does on a real node what a job does on a simulated one.  It also prints ``lines=N`` lines at
#: once, one more a second while it runs, and what each word of NAME=VALUE says.
TRAINER = """\
import math, signal, sys, time
from itertools import pairwise

words = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
words |= {name[2:]: value for name, value in pairwise(sys.argv) if name.startswith("--")}
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
if "lr" in words:
    import hypertune

    best = 0.95 - 0.1 * abs(math.log10(float(words["lr"])) + 2)
    for step in range(1, 9):
        tuner = hypertune.HyperTune()
        tuner.report_hyperparameter_tuning_metric("accuracy", best * (1 - 0.6 / step), step)
    sys.exit()
lines = int(words.get("lines", 3))
for step in range(1, lines + 1):
    print(f"step {step} loss {'nan' if step == lines * 2 // 3 else 1 / step:.6}")
sys.stdout.flush()
end = time.monotonic() + float(words.get("runs", math.inf))
while time.monotonic() < end:
    lines += 1
    print(f"tick {lines}", flush=True)
    time.sleep(min(1, max(0, end - time.monotonic())))
if "exit" in words:
    raise ValueError("the loss is nan")
"""
#: Cases of the catalog with the verdict of Google's documents.
CATALOG_CASES = Path(__file__).parents[1] / "admission" / "cases-open.yaml"


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


def trainer_job(name, *words, **more):
    """A simulated job that a real node can run too."""
    job = simulated_job(name, *words, **more)
    for pool in job["jobSpec"]["workerPoolSpecs"]:
        pool["containerSpec"]["command"] = ["python", "-c", TRAINER]
    return job


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
        "trialJobSpec": trainer_job(name)["jobSpec"],
    }


def create_study(server, document):
    """Start a study; return its full name."""
    return good(server.call("POST", STUDIES, document))["name"]


def refused_cases():
    """Return the catalog's refused cases by id, as documents that lack nothing else."""
    cases = yaml.safe_load(CATALOG_CASES.read_text())["cases"]
    return {case["id"]: _whole_document(case) for case in cases if not case["valid"]}


def _whole_document(case):
    """(location or None, document) of a case."""
    spec = copy.deepcopy(case["spec"])
    if case["product"] == "ml":
        spec.pop("flags", None)
        _add_programs(spec["trainingInput"], case["rule"] == "runtime-xor-image")
        return None, {"jobId": case["id"].lower(), **spec}
    location = spec.pop("region")
    for pool in spec["workerPoolSpecs"]:
        if container := pool.get("containerSpec"):
            container["command"] = ["python", "-m", "train"]
            if container["imageUri"].startswith("CUSTOM_"):
                container["imageUri"] = IMAGE
    return location, {"displayName": case["id"], "jobSpec": spec}


def _add_programs(training, has_both):
    if "runtimeVersion" in training and not has_both:
        return
    for role in ("master", "worker", "parameterServer"):
        if role == "master" or f"{role}Type" in training or f"{role}Count" in training:
            config = training.setdefault(f"{role}Config", {})
            config |= {"imageUri": IMAGE, "containerCommand": ["python", "-m", "train"]}
