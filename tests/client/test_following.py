"""What a command ends with is what decided the job."""

import pytest

from trainshed.client.following import exit_code_of


def replica(role, state, **how):
    return {"role": role, "state": state, **how}


CASES = {
    "success": ("SUCCEEDED", [replica("primary", "SUCCEEDED", exitCode=0)], 0),
    "the primary failed": ("FAILED", [replica("primary", "FAILED", exitCode=3)], 3),
    "the primary was killed": ("FAILED", [replica("primary", "FAILED", signal=9)], 137),
    "a worker failed and the primary was stopped for it": (
        "FAILED",
        [replica("primary", "STOPPED", signal=15), replica("worker", "FAILED", exitCode=4)],
        4,
    ),
    "the primary's word counts more": (
        "FAILED",
        [replica("worker", "FAILED", exitCode=4), replica("primary", "FAILED", exitCode=5)],
        5,
    ),
    "nothing ever ran": ("CANCELLED", [], 1),
}


@pytest.mark.parametrize("case", CASES)
def test_the_exit_code_is_that_of_the_replica_that_decided(case):
    state, replicas, code = CASES[case]
    assert exit_code_of({"state": state, "replicas": replicas}) == code
