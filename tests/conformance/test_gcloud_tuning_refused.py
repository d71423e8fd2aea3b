"""Unmodified gcloud: studies that cannot be are refused at their field, and nothing is started.

What gcloud checks itself is not asked here: it reads the study's file strictly, and sends nothing
that it does not know.
"""

import pytest

from conformance.gcloud import needs_gcloud
from conformance.tuning_studies import X, study

pytestmark = [pytest.mark.slow, needs_gcloud]


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
        f"{P.format(2)}.conditionalParameterSpecs[0]", "rmsprop is not a value of its parent opt",
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
        P.format(1), "a parameter must have values",
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
def test_a_refusal_names_the_field_and_starts_nothing(gcloud, create_study, case):
    document, flags, field, sentence = REFUSED[case]
    done = create_study(gcloud, document, *flags, name="refused")
    assert done.code == 1
    assert "INVALID_ARGUMENT" in done.stderr
    violations = [line.strip() for line in done.stderr.splitlines()]
    assert f"field: {field}" in violations
    assert sentence in " ".join(violations)
    listed = gcloud(
        "ai", "hp-tuning-jobs", "list", "--filter", "displayName=refused", "--format", "value(name)"
    )
    assert listed.ok().stdout.strip() == ""


def test_all_faults_of_a_file_are_told_at_once(gcloud, create_study):
    document = changed(doubleValueSpec={"minValue": 1.0, "maxValue": 0.1})
    document["studySpec"]["metrics"][0]["metricId"] = "two words"
    done = create_study(gcloud, document, "--max-trial-count=1", "--parallel-trial-count=2")
    assert done.code == 1
    fields = [line for line in done.stderr.splitlines() if line.strip().startswith("field: ")]
    assert len(fields) == len(set(fields)) == 3
