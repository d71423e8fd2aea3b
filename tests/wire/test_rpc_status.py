"""Refusals in the form that every one of Google's clients reads (docs/sources/gcloud.md 8.1)."""

import json

import pytest

from trainshed.model.faults import Violation
from trainshed.model.refusals import Code, Refusal
from trainshed.wire.status import status_json


def test_a_refusal_carries_every_violation_in_the_caller_s_own_words():
    violation = Violation(
        field="trainingInput.workerCount",
        rule="replica-count",
        message="must be positive.",
        accepted="1 or more",
    )
    other = Violation(field="jobId", rule="job-id", message="this field is required")
    refusal = Refusal(Code.INVALID_ARGUMENT, "two faults", (violation, other))
    assert status_json(refusal) == {
        "error": {
            "code": 400,
            "message": "two faults",
            "status": "INVALID_ARGUMENT",
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.BadRequest",
                    "fieldViolations": [
                        {
                            "field": "trainingInput.workerCount",
                            "description": "must be positive; accepted: 1 or more",
                        },
                        {"field": "jobId", "description": "this field is required"},
                    ],
                }
            ],
        }
    }


@pytest.mark.parametrize("code", Code)
def test_every_code_has_its_http_status_and_name_and_no_details_of_its_own(code):
    error = status_json(Refusal(code, "no"))["error"]
    assert error == {"code": code.http, "message": "no", "status": code.name}


@pytest.mark.parametrize("text", ["short", "a" * 10_000])
def test_of_very_many_violations_the_last_says_how_many_more_there_are(text):
    violations = [Violation(field=f"f{i}", rule="wrong-type", message=text) for i in range(5000)]
    error = status_json(Refusal(Code.INVALID_ARGUMENT, text * 3, violations))["error"]
    entries = error["details"][0]["fieldViolations"]
    assert entries[-1] == {"field": "", "description": f"and {5001 - len(entries)} more"}
    assert len(json.dumps(error)) < 64 << 10
