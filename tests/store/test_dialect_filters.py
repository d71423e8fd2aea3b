"""In the words of either dialect, what is restarted runs, and what an engine queues is queued."""

import pytest

from store.builders import PROJECT, go, hand_over, new_job, place
from trainshed.model.status import JobState
from trainshed.store.records.jobs import JobKind, JobQuery
from trainshed.wire.aiplatform_v1.words import jobs_filter, pipelines_filter
from trainshed.wire.ml_v1.words import jobs_filter as ml_jobs_filter

STATES = (
    JobState.QUEUED,
    JobState.ENQUEUED,
    JobState.RUNNING,
    JobState.RESTARTING,
    JobState.CANCELLING,
)
RUN = {JobState.RUNNING, JobState.RESTARTING}
WAIT = {JobState.QUEUED, JobState.ENQUEUED}


@pytest.fixture
def list_states(store):
    """Lists pipelines, whose children are in every state, or the children; the states found."""
    pipelines = [store.add_pipeline(new_job(), "{}", "task") for _ in STATES]
    for pipeline, state in zip(pipelines, STATES, strict=True):
        if state is JobState.ENQUEUED:
            hand_over(store, pipeline.child_uid)
        elif state is not JobState.QUEUED:
            place(store, pipeline.child_uid)
            go(store, pipeline.child_uid, state)

    def ask(item, *, of_pipelines=False):
        query = JobQuery(project=PROJECT, kind=JobKind.CUSTOM_JOB, filter=item)
        if of_pipelines:
            records = [child for _, child in store.list_pipelines(query)]
        else:
            records = store.list_jobs(query)
        return {record.job.status.state for record in records}

    return ask


def test_what_runs_is_found_with_what_is_restarted(list_states):
    assert list_states(jobs_filter('state="JOB_STATE_RUNNING"')) == RUN
    assert list_states(ml_jobs_filter("state:RUNNING")) == RUN
    running = pipelines_filter('state="PIPELINE_STATE_RUNNING"')
    assert list_states(running, of_pipelines=True) == RUN


def test_what_waits_is_found_with_what_waits_in_the_queue_of_its_engine(list_states):
    assert list_states(jobs_filter('state="JOB_STATE_QUEUED"')) == WAIT
    assert list_states(ml_jobs_filter("state:QUEUED")) == WAIT
    waiting = pipelines_filter('state="PIPELINE_STATE_QUEUED"')
    assert list_states(waiting, of_pipelines=True) == WAIT
    assert list_states(jobs_filter('state!="JOB_STATE_QUEUED"')) == set(STATES) - WAIT


def test_neither_is_found_among_the_others(list_states):
    rest = set(STATES) - RUN
    assert list_states(jobs_filter('state!="JOB_STATE_RUNNING"')) == rest
    assert list_states(jobs_filter('NOT state="JOB_STATE_RUNNING"')) == rest
    assert list_states(ml_jobs_filter("state!=RUNNING")) == rest
    assert list_states(ml_jobs_filter("state=CANCELLING")) == {JobState.CANCELLING}
