"""Studies that cannot be: each is refused, at the caller's own field, in both dialects."""

import copy

import pytest

from admission.asking import ask
from trainshed.admission import check
from trainshed.model.faults import FieldPath
from trainshed.wire.detect import parse
from trainshed.wire.parsed import snake

LR = {"parameterId": "lr", "doubleValueSpec": {"minValue": 0.1, "maxValue": 1.0}}
N = {"parameterId": "n", "integerValueSpec": {"minValue": "1", "maxValue": "4"}}
ML_LR = {"parameterName": "lr", "type": "DOUBLE", "minValue": 0.1, "maxValue": 1.0}
ML_N = {"parameterName": "n", "type": "INTEGER", "minValue": 1, "maxValue": 4}
MANY = [float(value) for value in range(1001)]
P, ML_P = "studySpec.parameters[1]", "trainingInput.hyperparameters.params[1]"


def vertex(*parameters, counts=None, **study):
    metrics = [{"metricId": "accuracy", "goal": "MAXIMIZE"}]
    return {
        "displayName": "d",
        "studySpec": {"metrics": metrics, "parameters": [LR, *parameters], **study},
        "trialJobSpec": {
            "workerPoolSpecs": [
                {
                    "machineSpec": {"machineType": "n1-standard-4"},
                    "replicaCount": "1",
                    "containerSpec": {"imageUri": "i"},
                }
            ]
        },
        **(counts or {}),
    }


def ml(*params, **spec):
    hyperparameters = {"goal": "MAXIMIZE", "params": [ML_LR, *params], **spec}
    return {
        "jobId": "j",
        "trainingInput": {
            "scaleTier": "BASIC",
            "region": "us-central1",
            "pythonModule": "t",
            "packageUris": ["gs://b/p.tar.gz"],
            "runtimeVersion": "2.1",
            "pythonVersion": "3.7",
            "hyperparameters": hyperparameters,
        },
    }


def list_faults(document):
    parsed = parse(document)
    violations = [*parsed.violations, *check(ask(parsed.spec))]
    for violation in violations:
        assert violation.message
        assert violation.accepted
    places = [(place_of(parsed, violation), violation.rule) for violation in violations]
    return [
        (place, rule)
        for place, rule in places
        if rule.startswith(("study-", "exactly-", "hidden-"))
    ]


def place_of(parsed, violation):
    field = violation.field
    return parsed.words(field) if isinstance(field, FieldPath) else field


def child(parent_values, values):
    parameter = {"parameterId": "c", "doubleValueSpec": {"maxValue": 1.0}}
    condition = {parent_values: {"values": values}, "parameterSpec": parameter}
    return {**N, "conditionalParameterSpecs": [condition]}


LOG = "UNIT_LOG_SCALE"
BAD = {
    "bounds reversed": (
        vertex({"parameterId": "x", "doubleValueSpec": {"minValue": 2.0, "maxValue": 1.0}}),
        (f"{P}.doubleValueSpec.minValue", "study-bounds"),
    ),
    "ml bounds reversed": (
        ml({"parameterName": "x", "type": "DOUBLE", "minValue": 2, "maxValue": 1}),
        (f"{ML_P}.minValue", "study-bounds"),
    ),
    "log scale with zero": (
        vertex({"parameterId": "x", "doubleValueSpec": {"maxValue": 1.0}, "scaleType": LOG}),
        (f"{P}.scaleType", "study-scale"),
    ),
    "ml log scale with zero": (
        ml({"parameterName": "x", "type": "DOUBLE", "maxValue": 1, "scaleType": LOG}),
        (f"{ML_P}.scaleType", "study-scale"),
    ),
    "integer bound not integral": (
        ml({"parameterName": "x", "type": "INTEGER", "minValue": 1, "maxValue": 2.5}),
        (f"{ML_P}.maxValue", "study-bounds"),
    ),
    "1,001 discrete values": (
        vertex({"parameterId": "x", "discreteValueSpec": {"values": MANY}}),
        (f"{P}.discreteValueSpec.values", "study-values"),
    ),
    "ml 1,001 discrete values": (
        ml({"parameterName": "x", "type": "DISCRETE", "discreteValues": MANY}),
        (f"{ML_P}.discreteValues", "study-values"),
    ),
    "ml no categories": (
        ml({"parameterName": "x", "type": "CATEGORICAL", "categoricalValues": []}),
        (f"{ML_P}.categoricalValues", "study-values"),
    ),
    "duplicate id": (vertex(LR), (f"{P}.parameterId", "study-parameters")),
    "ml duplicate id": (ml(ML_LR), (f"{ML_P}.parameterName", "study-parameters")),
    "duplicate metric": (
        vertex(metrics=[{"metricId": "a"}, {"metricId": "a"}]),
        ("studySpec.metrics[1].metricId", "study-metrics"),
    ),
    "a parent value that does not exist": (
        vertex(child("parentIntValues", ["5"])),
        (f"{P}.conditionalParameterSpecs[0]", "study-condition"),
    ),
    "grid search over a double": (
        vertex(algorithm="GRID_SEARCH"),
        ("studySpec.parameters[0].doubleValueSpec", "study-algorithm"),
    ),
    "ml grid search over a double": (
        ml(algorithm="GRID_SEARCH"),
        ("trainingInput.hyperparameters.params[0].type", "study-algorithm"),
    ),
    "a metric that reports lose": (
        vertex(metrics=[{"metricId": "global_step"}]),
        ("studySpec.metrics[0].metricId", "study-metrics"),
    ),
    "ml a metric that reports lose": (
        ml(hyperparameterMetricTag="trial"),
        ("trainingInput.hyperparameters.hyperparameterMetricTag", "study-metrics"),
    ),
    "a metric that clears a screen": (
        vertex(metrics=[{"metricId": "\x1b[2J"}]),
        ("studySpec.metrics[0].metricId", "hidden-characters"),
    ),
    "ml a parameter that is read backwards": (
        ml({"parameterName": "x\u202ey", "type": "CATEGORICAL", "categoricalValues": ["a"]}),
        (f"{ML_P}.parameterName", "hidden-characters"),
    ),
    "more parallel than total trials": (
        vertex(counts={"maxTrialCount": 2, "parallelTrialCount": 3}),
        ("parallelTrialCount", "study-trials"),
    ),
    "ml more parallel than total trials": (
        ml(maxTrials=2, maxParallelTrials=3),
        ("trainingInput.hyperparameters.maxParallelTrials", "study-trials"),
    ),
    "no trials": (vertex(counts={"maxTrialCount": 0}), ("maxTrialCount", "study-trials")),
    "a NaN bound": (
        vertex({"parameterId": "x", "doubleValueSpec": {"minValue": "NaN", "maxValue": 1}}),
        (f"{P}.doubleValueSpec.minValue", "study-bounds"),
    ),
    "a default outside the bounds": (
        vertex({**N, "integerValueSpec": {**N["integerValueSpec"], "defaultValue": "9"}}),
        (f"{P}.integerValueSpec.defaultValue", "study-default"),
    ),
    "least trials above most": (
        vertex(studyStoppingConfig={"minNumTrials": 3, "maxNumTrials": 2}),
        ("studySpec.studyStoppingConfig.minNumTrials", "study-ending"),
    ),
    "a duration and a date": (
        vertex(
            studyStoppingConfig={
                "maximumRuntimeConstraint": {
                    "maxDuration": "60s",
                    "endTime": "2099-01-01T00:00:00Z",
                }
            }
        ),
        ("studySpec.studyStoppingConfig.maximumRuntimeConstraint", "exactly-one-of"),
    ),
    "a date that no calendar has": (
        vertex(
            studyStoppingConfig={"maximumRuntimeConstraint": {"endTime": "2099-13-01T00:00:00Z"}}
        ),
        ("studySpec.studyStoppingConfig.maximumRuntimeConstraint", "study-ending"),
    ),
    "early stopping with two objectives": (
        vertex(
            metrics=[{"metricId": "a"}, {"metricId": "b"}],
            decayCurveStoppingSpec={"useElapsedDuration": True},
        ),
        ("studySpec.decayCurveStoppingSpec", "study-stopping"),
    ),
    "nothing but limits": (
        vertex(metrics=[{"metricId": "a", "safetyConfig": {"safetyThreshold": 1}}]),
        ("studySpec.metrics", "study-safety"),
    ),
    "a share above one": (
        vertex(
            metrics=[
                {"metricId": "a"},
                {"metricId": "b", "safetyConfig": {"desiredMinSafeTrialsFraction": 2}},
            ]
        ),
        (
            "studySpec.metrics[1].safetyConfig.desiredMinSafeTrialsFraction",
            "study-safety",
        ),
    ),
    "a learning rate that is no parameter": (
        vertex(convexAutomatedStoppingSpec={"learningRateParameterName": "rate"}),
        ("studySpec.convexAutomatedStoppingSpec.learningRateParameterName", "study-stopping"),
    ),
    "two ways of early stopping": (
        vertex(convexAutomatedStoppingSpec={}, medianAutomatedStoppingSpec={}),
        ("studySpec", "exactly-one-of"),
    ),
}
GOOD = {
    "vertex": vertex(child("parentIntValues", ["4"])),
    "ml": ml(ML_N),
}


@pytest.mark.parametrize("name", BAD)
def test_a_study_that_cannot_be_is_refused_at_its_field_and_nowhere_else(name):
    document, expected = BAD[name]
    assert list_faults(document) == [expected]


@pytest.mark.parametrize("name", BAD)
def test_the_field_is_in_the_callers_own_spelling(name):
    document, (field, rule) = BAD[name]
    assert list_faults(snaked(document)) == [(snake(field), rule)]


@pytest.mark.parametrize("name", GOOD)
def test_the_documents_without_the_fault_are_accepted(name):
    assert list_faults(copy.deepcopy(GOOD[name])) == []


def snaked(value):
    if isinstance(value, dict):
        return {snake(key): snaked(item) for key, item in value.items()}
    return [snaked(item) for item in value] if isinstance(value, list) else value
