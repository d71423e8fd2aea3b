"""Refusals in the form that every one of Google's clients reads (contracts/gcloud.md 8.1)."""

import pytest

from trainshed.model.faults import Violation
from trainshed.model.refusals import Code, Refusal
from trainshed.wire.status import status_json


def test_a_refusal_carries_every_violation_in_the_caller_s_own_words():
    found = Violation(
        field="trainingInput.workerCount",
        rule="replica-count",
        message="must be positive.",
        accepted="1 or more",
    )
    other = Violation(field="jobId", rule="job-id", message="this field is required")
    refusal = Refusal(Code.INVALID_ARGUMENT, "two faults", (found, other))
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
