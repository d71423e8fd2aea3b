"""A command follows a job to its end, and ends with what decided the job."""

import pytest

from trainshed.client.faults import Unreachable
from trainshed.client.following import FollowedJob, LineSelection, exit_code_of


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


class PrunedServer:
    """A server that goes away after a line, and has removed old lines when it is back."""

    lost = ({"time": "5", "message": "a"},)
    now = ({"time": "5", "message": "a"}, {"time": "6", "message": "b"})

    def lines(self, path, query):
        del path
        lines = self.lost or self.now[(query["fromLine"] or 1) - 1 :]
        yield from lines
        if self.lost:
            self.lost = ()
            raise Unreachable("away")

    def call(self, *_):
        return {}


def test_a_log_goes_on_although_its_numbers_have_shifted_meanwhile():
    job = FollowedJob(PrunedServer(), "jobs/7", note=lambda _: None, pause=lambda _: None)
    lines = job.lines(LineSelection(from_line=5))
    assert [line["message"] for line in lines] == ["a", "b"]
