"""Every place of a study has words in both dialects, and they are the caller's own."""

import re

import pytest

from trainshed.model.faults import Field, FieldPath
from trainshed.model.study_places import StudyField, StudyPlace
from trainshed.wire.detect import parse
from trainshed.wire.fields import table

CHILD = {
    "parentIntValues": {"values": ["1"]},
    "parameterSpec": {"parameterId": "c", "discreteValueSpec": {"values": [1]}},
}
RULES = ("medianAutomatedStoppingSpec", "decayCurveStoppingSpec", "convexAutomatedStoppingSpec")
#: Only ranges have bounds, and only lists have values; a rule never asks for the other.
OF_KIND = {
    "doubleValueSpec": {StudyField.VALUES},
    "integerValueSpec": {StudyField.VALUES},
    "categoricalValueSpec": {StudyField.LEAST, StudyField.MOST},
    "discreteValueSpec": {StudyField.LEAST, StudyField.MOST},
}
#: Only the convex rule has these.
OF_CONVEX = {
    StudyField.STEPS_MAX,
    StudyField.STEPS_MIN,
    StudyField.MEASUREMENTS_MIN,
    StudyField.LEARNING_RATE,
}


def vertex(values, rule):
    parent = {"parameterId": "p", values: {}, "conditionalParameterSpecs": [CHILD]}
    study = {"metrics": [{}], "parameters": [parent], rule: {}}
    return {"studySpec": study, "trialJobSpec": {}}


def exists(message, words, dialect):
    info = table(dialect).messages[message]
    for step in words.split("."):
        field = info.by_key.get(re.sub(r"\[\d\]", "", step)) if info else None
        if field is None:
            return False
        info = table(dialect).messages.get(field.type)
    return True


VERTEX = [
    (field, values, rule)
    for field in StudyField
    for values, unsupported in OF_KIND.items()
    for rule in RULES
    if field not in unsupported and (rule == RULES[2] or field not in OF_CONVEX)
]


@pytest.mark.parametrize(("field", "values", "rule"), VERTEX)
def test_every_place_of_a_vertex_study_has_words_that_exist(field, values, rule):
    at = (0, 0) if field is StudyField.CONDITION else (0,)
    words = parse(vertex(values, rule)).words(FieldPath(Field.STUDY, place=StudyPlace(field, at)))
    assert exists("HyperparameterTuningJob", words, "aiplatform_v1"), words


@pytest.mark.parametrize("kind", ["DOUBLE", "INTEGER", "CATEGORICAL", "DISCRETE"])
@pytest.mark.parametrize("field", StudyField)
def test_every_place_of_an_ml_study_has_words_that_exist(field, kind):
    params = [{"parameterName": "p", "type": kind}]
    parsed = parse({"trainingInput": {"hyperparameters": {"params": params}}})
    words = parsed.words(FieldPath(Field.STUDY, place=StudyPlace(field, (0,))))
    assert words.startswith("trainingInput.hyperparameters")
    assert exists("Job", words, "ml_v1"), words


@pytest.mark.parametrize(
    ("field", "at", "words"),
    [
        (StudyField.LEAST, (1,), "study_spec.parameters[1].double_value_spec.minValue"),
        (
            StudyField.VALUES,
            (0, 0),
            "study_spec.parameters[0].conditionalParameterSpecs[0].parameterSpec.discreteValueSpec",
        ),
        (StudyField.CONDITION, (0, 0), "study_spec.parameters[0].conditionalParameterSpecs[0]"),
        (StudyField.STEPS_MIN, (), "study_spec.convexAutomatedStoppingSpec.minStepCount"),
        (StudyField.SAFETY_FRACTION, (0,), "study_spec.metrics[0].safety_config.desired_min"),
        (StudyField.TRIALS_MAX, (), "max_trial_count"),
    ],
)
def test_the_words_are_in_the_callers_own_spelling(field, at, words):
    parent = {"parameterId": "p", "integerValueSpec": {}, "conditionalParameterSpecs": [CHILD]}
    safety = {"safety_config": {"desired_min_safe_trials_fraction": 2}}
    document = {
        "study_spec": {
            "metrics": [safety],
            "parameters": [parent, {"double_value_spec": {"minValue": 1}}],
            "convexAutomatedStoppingSpec": {},
        },
        "trialJobSpec": {},
        "max_trial_count": 0,
    }
    path = parse(document).words(FieldPath(Field.STUDY, place=StudyPlace(field, at)))
    assert path.startswith(words)
