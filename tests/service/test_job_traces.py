"""The spans of jobs after the mark: whole and once, whenever a server is killed."""

import pytest

from store.builders import add, add_study, advance, go, new_trials, place
from trainshed.model.status import JobState
from trainshed.service.traces.job_traces import JobTraces
from trainshed.store.records.steps import NewEvent


def happen(store, uid, *kinds):
    for kind in kinds:
        store.add_event(uid, NewEvent(kind=kind, message=kind, data={"task_name": "a"}))


def traces(store, leads=lambda: True):
    return JobTraces(store, leads, every_s=0)


def names(spans):
    return [span.name for span in spans]


#: The events of a job that restarts once, each written by itself; PLACED opens an attempt.
LIFE = (
    *("PLACED", "PREPARING", "RUNNING", "RESTARTING"),
    *("PLACED", "PREPARING", "RUNNING", "REPLICA_ENDED", "SUCCEEDED"),
    "GOODPUT",
)
WHOLE = sorted(
    [
        *("job.queued", "job.preparing", "job.running") * 2,
        *("job.attempt",) * 2,
        *("replica", "job"),
    ]
)


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_server_that_is_killed_at_any_time_leaves_a_whole_trace(store, is_noted):
    """``is_noted``: each server was killed after it stored what it had sent, not before."""
    traces(store).next_spans()
    uid = add(store).uid
    sent = []
    for kind in LIFE:
        if kind == "PLACED":
            place(store, uid)
        else:
            happen(store, uid, kind)
        if kind == "RESTARTING":
            go(store, uid, JobState.QUEUED)
        server = traces(store)
        sent += server.next_spans()
        if is_noted:
            server.note_sent()
    by_id = {span.span_id: span for span in sent}
    assert sorted(span.name for span in by_id.values()) == WHOLE
    assert all(span == by_id[span.span_id] for span in sent), "a repetition is the same span"
    assert len(sent) == len(by_id) or not is_noted
    assert len({span.trace_id for span in sent}) == 1


def test_only_the_leader_sends_and_a_new_leader_goes_on_from_the_mark(store):
    leads = {"a": True, "b": False}
    a, b = (traces(store, lambda name=name: leads[name]) for name in leads)
    a.next_spans()
    uid = add(store).uid
    happen(store, uid, "PREPARING")
    assert b.next_spans() == ()
    assert names(a.next_spans()) == ["job.queued"]
    a.note_sent()
    leads |= {"a": False, "b": True}
    happen(store, uid, "RUNNING")
    assert a.next_spans() == ()
    assert names(b.next_spans()) == ["job.preparing"]
    b.note_sent()
    leads |= {"a": True, "b": False}
    happen(store, uid, "SUCCEEDED", "GOODPUT")
    assert names(a.next_spans()) == ["job.running", "job.attempt", "job"]


def test_what_was_not_sent_comes_again(store):
    server = traces(store)
    server.next_spans()
    happen(store, add(store).uid, "PREPARING")
    first = server.next_spans()
    assert server.next_spans() == first
    server.note_sent()
    assert server.next_spans() == ()


def test_two_servers_that_both_lead_for_a_moment_do_not_move_the_mark_back(store):
    a, b = traces(store), traces(store)
    a.next_spans(), b.next_spans()
    uid = add(store).uid
    happen(store, uid, "PREPARING")
    a.next_spans()
    happen(store, uid, "RUNNING")
    assert names(b.next_spans()) == ["job.queued", "job.preparing"]
    b.note_sent()
    a.note_sent()
    assert a.next_spans() == b.next_spans() == ()


def test_jobs_that_were_deleted_are_passed_over(store):
    server = traces(store)
    server.next_spans()
    gone, uid = add(store).uid, add(store).uid
    happen(store, gone, "PREPARING")
    happen(store, uid, "PREPARING")
    go(store, gone, JobState.CANCELLED)
    store.forget([gone])
    assert names(server.next_spans()) == ["job.queued"]


def test_the_root_describes_the_job(store):
    server = traces(store)
    server.next_spans()
    record = add(store)
    place(store, record.uid)
    happen(store, record.uid, "PREPARING", "FAILED", "GOODPUT")
    root = server.next_spans()[-1]
    assert root.attributes["trainshed.job.project"] == record.job.project
    assert root.attributes["trainshed.job.uid"] == str(record.uid)
    assert root.attributes["trainshed.job.state"] == "FAILED"
    assert root.attributes["trainshed.job.region"] == record.job.location
    assert root.attributes["trainshed.job.gpus"] > 0


def test_the_trace_of_a_trial_links_to_the_trace_of_its_study(store):
    server = traces(store)
    server.next_spans()
    study = add_study(store).uid
    [trial] = advance(store, study, new_trials=new_trials(1))
    happen(store, trial.job_uid, "SUCCEEDED")
    for kind in ("TRIAL_CREATED", "TRIAL_ENDED"):
        store.add_event(study, NewEvent(kind=kind, message=kind, data={"trial": 1}))
    happen(store, study, "STUDY_ENDED")
    by_name = {span.name: span for span in server.next_spans()}
    [link] = by_name["job"].links
    assert (link.trace_id, link.span_id) == (by_name["study"].trace_id, by_name["study"].span_id)
    [back] = by_name["trial"].links
    assert (back.trace_id, back.span_id) == (by_name["job"].trace_id, by_name["job"].span_id)
