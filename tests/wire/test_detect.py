"""A document is known by its shape, or its author is told what was looked for."""

import pytest

from trainshed.model.faults import Field, FieldPath, Violation
from trainshed.model.roles import Dialect
from trainshed.wire.detect import DocumentKind, kind_of, parse


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"trainingInput": {}}, DocumentKind.ML_JOB),
        ({"training_input": {}}, DocumentKind.ML_JOB),
        ({"jobId": "j"}, DocumentKind.ML_JOB),
        ({"jobSpec": {}, "displayName": "d"}, DocumentKind.CUSTOM_JOB),
        ({"job_spec": {}}, DocumentKind.CUSTOM_JOB),
        ({"workerPoolSpecs": []}, DocumentKind.CUSTOM_JOB_SPEC),
        ({"worker_pool_specs": []}, DocumentKind.CUSTOM_JOB_SPEC),
        ({"studySpec": {}, "trialJobSpec": {}}, DocumentKind.TUNING_JOB),
        ({"trialJobSpec": {}}, DocumentKind.TUNING_JOB),
        ({"trainingTaskInputs": {}}, DocumentKind.TRAINING_PIPELINE),
    ],
)
def test_a_document_is_known_by_its_keys(document, kind):
    assert kind_of(document) is kind
    parsed = parse(document)
    expected = Dialect.ML_V1 if kind is DocumentKind.ML_JOB else Dialect.AIPLATFORM_V1
    assert parsed.spec.dialect is expected
    assert parsed.violations == ()


@pytest.mark.parametrize(
    ("document", "field", "says"),
    [
        ({"trainingInputs": {}}, "trainingInputs", "trainingInput"),
        ({"worker_pool_spec": []}, "worker_pool_spec", "workerPoolSpecs"),
        ({"displayName": "d"}, "", "none of the keys"),
        ({1: 2}, "", "none of the keys"),
        ({}, "", "none of the keys"),
        ([], "", "a list"),
        ("text", "", "the string 'text'"),
        (None, "", "null"),
    ],
)
def test_what_is_no_job_is_told_what_one_looks_like(document, field, says):
    parsed = parse(document)
    assert parsed.spec is None
    [violation] = parsed.violations
    assert isinstance(kind_of(document), Violation)
    assert (violation.field, violation.rule) == (field, "not-a-job")
    assert says in violation.message
    assert "workerPoolSpecs" in violation.accepted
    assert parsed.words(FieldPath(Field.REGION)) == "region"
