"""Why a job is where it is, while it starts again, ends, or has ended for its limits."""

import pytest

from service.submitting import PROJECT
from store.builders import add, go, hand_over, place
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.restarts import Restarts
from trainshed.model.status import JobError, JobState
from trainshed.model.step_times import STEPS
from trainshed.service.jobs.story import Stories
from trainshed.store.records.steps import NewEvent

LATE = JobError(code=4, message="The job ran for longer than the 60 s of scheduling.timeout.")


@pytest.fixture
def job(store):
    record = add(store, project=PROJECT)
    place(store, record.uid)
    go(store, record.uid, JobState.RUNNING)
    return record


def sentence(store, job):
    return Stories(store).explain(PROJECT, job.job.job_id).message


def test_a_job_that_starts_again_says_so_and_how_often_it_did(store, job):
    go(store, job.uid, JobState.RESTARTING, restarts=Restarts(maintenance=1, infra=2))
    assert sentence(store, job) == "Attempt 1 is being ended; the next one will begin."
    story = Stories(store).job(PROJECT, job.job.job_id)
    assert story.restarts == Restarts(maintenance=1, infra=2, user=0)


def test_a_long_story_is_not_read_to_explain_its_job(store, job, monkeypatch):
    for text in ("Steps: 10.", "Steps: 40."):
        store.add_event(job.uid, NewEvent(kind=STEPS, message=text))
    monkeypatch.setattr(type(store), "events", lambda *_, **__: pytest.fail("all of it is read"))
    assert Stories(store).explain(PROJECT, job.job.job_id).steps == "Steps: 40."


def test_a_job_that_never_was_says_nothing_of_it(store, job):
    assert Stories(store).job(PROJECT, job.job.job_id).restarts is None


def test_a_job_that_may_not_start_again_says_what_it_will_fail_of(store, job):
    doom = JobError(code=14, message="gpu1 goes into maintenance, and disableRetries forbids it.")
    go(store, job.uid, JobState.RESTARTING, error=doom)
    assert sentence(store, job) == doom.message


def test_a_job_whose_time_is_over_says_so_before_and_after_its_end(store, job):
    go(store, job.uid, JobState.CANCELLING, error=LATE)
    assert sentence(store, job) == f"{LATE.message} Its replicas are being stopped."
    go(store, job.uid, JobState.CANCELLED)
    assert sentence(store, job) == LATE.message


def test_a_job_in_the_queue_of_its_engine_says_what_that_says(store):
    record = add(store, project=PROJECT)
    hand_over(store, record.uid)
    story = Stories(store).job(PROJECT, record.job.job_id)
    assert (story.state, story.waiting.reason) == (JobState.ENQUEUED, Reason.ENGINE_QUEUE)
    assert story.waiting.queue_position is None
    why = Explanation(
        reason=Reason.HELD, message="Ann has held it.", position=4, since_s=1_795_219_200.0
    )
    store.explain({record.uid: why}, JobState.ENQUEUED)
    waiting = Stories(store).explain(PROJECT, record.job.job_id).waiting
    assert (waiting.reason, waiting.message) == (Reason.HELD, "Ann has held it.")
    assert (waiting.queue_position, waiting.since[:20]) == (4, "2026-11-21T00:00:00.")
    assert waiting.change is None


def test_replicas_that_do_not_come_up_say_why(store, job):
    go(store, job.uid, JobState.QUEUED)
    hand_over(store, job.uid)
    go(store, job.uid, JobState.PREPARING)
    assert sentence(store, job) == "Its replicas have nodes and are being started."
    why = Explanation(reason=Reason.NOT_STARTING, message="1 of 3 replicas is not up.")
    store.explain({job.uid: why}, JobState.PREPARING)
    assert sentence(store, job) == "1 of 3 replicas is not up."
    go(store, job.uid, JobState.RUNNING)
    assert sentence(store, job) == "Attempt 2 is running."


def test_a_success_does_not_keep_what_it_might_have_failed_of(store, job):
    go(store, job.uid, JobState.RESTARTING, error=LATE)
    done = go(store, job.uid, JobState.SUCCEEDED)
    assert done.job.status.error is None
    assert sentence(store, job) == "It completed successfully."
