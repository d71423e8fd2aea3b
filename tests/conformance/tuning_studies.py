"""The study of the gcloud tests, as its file says it, and its variations."""

import copy

from conformance.tuning_trainer import IMAGE, TRAINER

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
