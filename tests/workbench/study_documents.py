"""Tuning jobs as servers send them, written by docs/sources/vertex.md 7.1 and 8."""

import random

NAME = "projects/p/locations/us-central1/hyperparameterTuningJobs/77"
ACCURACY = {"metricId": "accuracy", "goal": "MAXIMIZE"}
SECONDS = {"metricId": "seconds", "goal": "MINIMIZE"}
LR = {
    "parameterId": "lr",
    "doubleValueSpec": {"minValue": 0.0001, "maxValue": 0.1},
    "scaleType": "UNIT_LOG_SCALE",
}
UNITS = {"parameterId": "units", "integerValueSpec": {"minValue": "4", "maxValue": "128"}}
BATCH = {"parameterId": "batch", "discreteValueSpec": {"values": [16.0, 32.0, 64.0]}}
MOMENTUM = {"parameterId": "momentum", "doubleValueSpec": {"maxValue": 1.0}}
OPT = {
    "parameterId": "opt",
    "categoricalValueSpec": {"values": ["adam", "sgd"]},
    "conditionalParameterSpecs": [
        {"parentCategoricalValues": {"values": ["sgd"]}, "parameterSpec": MOMENTUM}
    ],
}


def vertex(trials=(), *, metrics=(ACCURACY,), parameters=(LR, UNITS, BATCH, OPT), **more):
    """A HyperparameterTuningJob; none of its trials is there before the first one."""
    document = {
        "name": NAME,
        "displayName": "tuned",
        "studySpec": {"metrics": list(metrics), "parameters": list(parameters)},
        "maxTrialCount": 24,
        "parallelTrialCount": 2,
        "trialJobSpec": {"workerPoolSpecs": [{}]},
        "state": "JOB_STATE_RUNNING",
        "createTime": "2026-11-20T20:00:00Z",
        "startTime": "2026-11-20T20:00:10Z",
    }
    return {**document, **({"trials": list(trials)} if trials else {}), **more}


def trial(number, state="SUCCEEDED", *, measured=(), final=None, reason=None, **values):
    """A Trial; ``measured`` are (step, {metric: value}), and the last one is final."""
    measurements = [measurement(step, at) for step, at in measured]
    if final is not None:
        last = measurement(*final)
    else:
        last = measurements[-1] if measurements and state == "SUCCEEDED" else None
    ended = state in ("SUCCEEDED", "INFEASIBLE")
    document = {
        "id": str(number),
        "state": state,
        "parameters": [{"parameterId": k, "value": v} for k, v in values.items()],
        "measurements": measurements,
        "finalMeasurement": last,
        "startTime": "2026-11-20T20:01:00Z" if state != "REQUESTED" else None,
        "endTime": "2026-11-20T20:01:12.500Z" if ended else None,
        "infeasibleReason": reason,
    }
    return {name: value for name, value in document.items() if value}


def measurement(step, values):
    metrics = [{"metricId": name, "value": value} for name, value in values.items()]
    return {"elapsedDuration": f"{step * 0.5}s", "stepCount": str(step), "metrics": metrics}


def many(count, seed=1):
    """Finished trials with conditional parameters; every seventh is infeasible."""
    drawn = random.Random(seed)  # noqa: S311  # test data
    return [_drawn(number, drawn) for number in range(1, count + 1)]


def _drawn(number, drawn):
    values = {"lr": 10 ** drawn.uniform(-4, -1), "units": drawn.randint(4, 128)}
    values |= {"batch": drawn.choice([16.0, 32.0, 64.0]), "opt": drawn.choice(["adam", "sgd"])}
    if values["opt"] == "sgd":
        values["momentum"] = drawn.random()
    if number % 7 == 0:
        return trial(number, "INFEASIBLE", reason="accuracy was not reported", **values)
    top = 0.9 - abs(values["lr"] - 0.01) - (0.1 if values["opt"] == "sgd" else 0)
    measured = [(step, {"accuracy": top * step / 5}) for step in (1, 3, 5)]
    return trial(number, measured=measured, **values)


def ml(trials=(), *, params=None, **more):
    """An ml v1 Job with hyperparameters."""
    lr = {"parameterName": "lr", "type": "DOUBLE", "minValue": 0.001, "maxValue": 1.0}
    units = {"parameterName": "units", "type": "INTEGER", "minValue": 1, "maxValue": 64}
    opt = {"parameterName": "opt", "type": "CATEGORICAL", "categoricalValues": ["adam", "sgd"]}
    spec = {
        "goal": "MINIMIZE",
        "hyperparameterMetricTag": "loss",
        "maxTrials": 4,
        "maxParallelTrials": 2,
        "params": params or [lr, units, opt],
    }
    output = {"isHyperparameterTuningJob": True, "hyperparameterMetricTag": "loss"}
    document = {
        "jobId": "census_1",
        "trainingInput": {"scaleTier": "BASIC", "hyperparameters": spec},
        "state": "RUNNING",
        "createTime": "2026-11-20T20:00:00Z",
        "trainingOutput": {**output, **({"trials": list(trials)} if trials else {})},
    }
    return {**document, **more}


def ml_trial(number, state="SUCCEEDED", *, value=None, step=None, **values):
    """A HyperparameterOutput: its values are texts."""
    final = None if value is None else {"objectiveValue": value, "trainingStep": str(step or 0)}
    document = {
        "trialId": str(number),
        "state": state,
        "hyperparameters": {name: str(text) for name, text in values.items()},
        "finalMetric": final,
        "startTime": "2026-11-20T20:01:00Z",
    }
    return {name: entry for name, entry in document.items() if entry}
