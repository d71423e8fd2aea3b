"""A gcloud that streams a log learns of the job's end only when it can have read the last line."""

from datetime import UTC, datetime, timedelta

import pytest

from trainshed.api.streamed_ends import without_fresh_end

END = datetime(2026, 11, 21, 0, 2, 39, tzinfo=UTC)
JOB = {"jobId": "a", "state": "SUCCEEDED", "endTime": "2026-11-21T00:02:39Z"}
AGENT = "google-cloud-sdk gcloud/528.0.0 command/gcloud.{} invocation-id/ab12 environment/None"
STREAMS = "ai-platform.jobs.submit.training"


@pytest.mark.parametrize(
    "command", [STREAMS, "ai-platform.jobs.stream-logs", "beta.ai-platform.jobs.stream-logs"]
)
def test_the_end_is_held_back_until_gcloud_can_read_the_last_lines(command):
    agent = AGENT.format(command)
    early, late = END + timedelta(seconds=9), END + timedelta(seconds=10)
    assert without_fresh_end(JOB, agent, early) == {"jobId": "a", "state": "SUCCEEDED"}
    assert without_fresh_end(JOB, agent, late) == JOB


@pytest.mark.parametrize("agent", [AGENT.format("ai-platform.jobs.describe"), "curl/8", ""])
def test_every_other_client_gets_the_end_with_the_final_state(agent):
    assert without_fresh_end(JOB, agent, END) == JOB


def test_a_job_that_runs_and_other_documents_stay_as_they_are():
    running = {"jobId": "a", "state": "RUNNING"}
    for document in (running, {"endTime": JOB["endTime"]}, {}):
        assert without_fresh_end(document, AGENT.format(STREAMS), END) == document
