"""What metrics read and hear of jobs is right in both databases, and costs no scan of a queue."""

from pathlib import Path

import pytest

from databases import new_database
from store.builders import (
    PROJECT,
    add,
    add_study,
    advance,
    end,
    ended,
    fill_queue,
    go,
    hand_over,
    new_job,
    new_trials,
    place,
    read,
    step_of,
    trial,
)
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.restarts import Cause, Restarts
from trainshed.model.status import JobState
from trainshed.model.trials import TrialState
from trainshed.service.telemetry.counters import Counters
from trainshed.service.telemetry.page import write_page
from trainshed.service.telemetry.store_counts import StoreCounts
from trainshed.store.front import FRONT_MAX
from trainshed.store.opening import open_store
from trainshed.store.records.steps import NewEvent, Step

FULL = Explanation(reason=Reason.CAPACITY, message="The nodes are in use.")


def test_open_jobs_are_counted_by_project_and_state_and_ended_ones_are_not(store):
    _, running, over = (add(store).uid for _ in range(3))
    go(store, place(store, running).uid, JobState.RUNNING)
    go(store, over, JobState.CANCELLED)
    add(store, project="other")
    add_study(store)
    counts = store.count_open()
    assert counts.by_project == {
        (PROJECT, "QUEUED"): 1, (PROJECT, "RUNNING"): 1, (PROJECT, "PREPARING"): 1,
        ("other", "QUEUED"): 1,
    }  # fmt: skip
    assert counts.studies == {"PREPARING": 1}
    assert {job.state for job in store.newest_open(limit=9)} == {"QUEUED", "RUNNING", "PREPARING"}


def test_trials_of_open_studies_that_have_not_ended_are_counted_by_state(store):
    study, over = add_study(store), add_study(store, job_id="over")
    advance(store, study.uid, new_trials=new_trials(1, 2, 3))
    advance(store, study.uid, trials=(ended(1), trial(2, state=TrialState.STOPPING)))
    end(store, over.uid)
    assert store.count_open().trials == {"ACTIVE": 1, "STOPPING": 1}


def test_an_empty_store_has_nothing_open(store):
    counts = store.count_open()
    assert (counts.by_project, counts.waiting, counts.oldest_wait_s) == ({}, {}, None)
    assert counts.trials == {}
    assert (counts.studies, store.newest_open(limit=9)) == ({}, [])


def test_the_reasons_of_waiting_jobs_are_counted_also_behind_the_front(store, clock):
    first = add(store)
    clock.forward(60.0)
    fill_queue(store, first.uid, jobs=FRONT_MAX + 1)
    store.explain({first.uid: FULL})
    enqueued = add(store, project="other")
    hand_over(store, enqueued.uid)
    counts = store.count_open()
    assert counts.waiting == {
        Reason.CAPACITY: 1, Reason.NOT_LOOKED_AT: FRONT_MAX - 1, Reason.BEHIND_QUEUE: 2,
        Reason.ENGINE_QUEUE: 1,
    }  # fmt: skip
    assert counts.oldest_wait_s == pytest.approx(60.0)


def test_the_newest_open_jobs_have_what_a_page_of_them_shows(store, clock):
    add(store)
    clock.forward(1.0)
    job = add(store)
    go(store, job.uid, JobState.PREPARING, restarts=Restarts(infra=2))
    [row] = store.newest_open(limit=1)
    assert (row.project, row.job_id, row.kind) == (PROJECT, str(job.uid), "customJobs")
    assert (row.gpus, row.restarts, row.creator) == (2, Restarts(infra=2), "ada")
    assert [row.restarts for row in store.newest_open(limit=2)][1] is None


@pytest.fixture
def counted(url, clock):
    """A store with counters, and what their page says of jobs."""
    if url.startswith("sqlite"):
        new_database(Path(url.removeprefix("sqlite:///")).parent)
    counters = Counters()
    store = open_store(url, clock, listener=StoreCounts(counters))
    yield store, lambda: samples(counters)
    store.close()


SHOWN = ("trainshed_job", "trainshed_notices", "trainshed_trials")


def samples(counters):
    lines = write_page(counters.read(), is_open=False).splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if line.startswith(SHOWN))
    pairs = ((name, float(value)) for name, value in pairs if "_bucket" not in name)
    return {name.removeprefix("trainshed_"): value for name, value in pairs if value}


OF = f'project="{PROJECT}"'


def test_a_job_of_two_attempts_is_counted_once_with_its_waits(counted, clock):
    store, page = counted
    uid = add(store).uid
    clock.forward(10.0)
    place(store, uid)
    clock.forward(5.0)
    go(store, uid, JobState.RUNNING)
    clock.forward(100.0)
    ends = [
        NewEvent(kind="REPLICA_ENDED", message="", data=data)
        for data in ({"notice_honoured": True}, {"notice_honoured": False}, {"exit_code": 1})
    ]
    go(
        store, uid, JobState.RESTARTING, charged=Cause.MAINTENANCE,
        restarts=Restarts(maintenance=1), events=tuple(ends),
    )  # fmt: skip
    go(store, uid, JobState.QUEUED)
    clock.forward(20.0)
    place(store, uid)
    clock.forward(5.0)
    go(store, uid, JobState.RUNNING)
    clock.forward(1.0)
    go(store, uid, JobState.RUNNING)
    clock.forward(199.0)
    go(store, uid, JobState.SUCCEEDED)
    assert page() == {
        f'jobs_submitted_total{{{OF},dialect="aiplatform_v1"}}': 1,
        f'jobs_finished_total{{{OF},state="SUCCEEDED",cause="none"}}': 1,
        'job_restarts_total{cause="maintenance"}': 1,
        'notices_total{honoured="yes"}': 1, 'notices_total{honoured="no"}': 1,
        "job_queue_wait_seconds_count": 2, "job_queue_wait_seconds_sum": 30,
        "job_start_seconds_count": 2, "job_start_seconds_sum": 10,
        "job_run_seconds_count": 1, "job_run_seconds_sum": 300,
    }  # fmt: skip


def test_a_write_that_is_not_stored_counts_no_job(counted):
    store, page = counted
    record = add(store)
    refused = go(store, record.uid, JobState.CANCELLED)
    assert not store.apply([Step(uid=record.uid, version=record.version, state=JobState.FAILED)])[0]
    add(store, retry_key="k")
    store.add_job(new_job(retry_key="k"))
    assert page()[f'jobs_submitted_total{{{OF},dialect="aiplatform_v1"}}'] == 2
    assert sum(value for name, value in page().items() if "finished" in name) == 1
    assert read(store, refused.uid).job.status.state is JobState.CANCELLED


def test_a_trial_that_ends_is_counted_once_and_only_if_it_was_stored(counted):
    store, page = counted
    study = add_study(store)
    advance(store, study.uid, new_trials=new_trials(1, 2, 3))
    early = trial(2, state=TrialState.SUCCEEDED, stopped_early=True)
    ends = step_of(store, study.uid, trials=(ended(1), early, trial(3)))
    assert store.apply_study(ends)
    assert not store.apply_study(ends), "the study has another version now"
    trials = {name: value for name, value in page().items() if name.startswith("trials")}
    assert trials == {
        'trials_finished_total{state="INFEASIBLE",stopped_early="false"}': 1,
        'trials_finished_total{state="SUCCEEDED",stopped_early="true"}': 1,
    }
