"""The store's contract: what ended long ago is dropped as a whole, and nothing else is."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from store.builders import (
    NS_PER_S,
    PROJECT,
    SERVER,
    HandClock,
    add,
    go,
    new_job,
    place,
    read,
    refused,
)
from trainshed.lifecycle.events import Command
from trainshed.model.filters import Compare
from trainshed.model.status import JobState
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind, JobQuery
from trainshed.store.records.steps import NewEvent, Step


def _now(clock: HandClock) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=clock.now_ns / NS_PER_S)


def _confirm_all(store: Store) -> None:
    store.confirm([command.seq for command in store.commands(SERVER)])


def _expired(store: Store, clock: HandClock, limit: int = 9) -> Sequence[int]:
    return list(store.expired(ended_before=_now(clock), limit=limit))


class TestForgetting:
    """The end of what is kept."""

    def test_expired_are_the_oldest_ends_deleted_ones_too(
        self, store: Store, clock: HandClock
    ) -> None:
        uids = [add(store).uid for _ in range(4)]
        for uid in (uids[2], uids[0], uids[3]):
            clock.forward(1)
            go(store, uid, JobState.FAILED)
        store.delete_job(uids[2])
        assert _expired(store, clock) == [uids[2], uids[0]], "the last one ends just now"
        clock.forward(1)
        assert _expired(store, clock) == [uids[2], uids[0], uids[3]]
        assert _expired(store, clock, limit=1) == [uids[2]]

    def test_nothing_of_a_forgotten_job_is_left(self, store: Store) -> None:
        new = new_job(
            kind=JobKind.ML_JOB, job_id="j", retry_key="k", spec=new_job(labels={"a": "b"}).spec
        )
        uid = store.add_job(new)[0].uid
        other_uid = add(store, labels={"a": "b"}).uid
        for job_uid in (uid, other_uid):
            place(store, job_uid)
            go(store, job_uid, JobState.SUCCEEDED)
        _confirm_all(store)
        mark, _, _ = store.holding_changed(0)
        store.forget([uid, 1])
        store.forget([])
        assert store.job_by_uid(uid) is None
        assert store.job(PROJECT, JobKind.ML_JOB, "j") is None
        assert not store.events(uid)
        assert not store.replicas(uid, 1)
        for ask in (store.expanded, store.notes):
            with refused(KeyError):
                ask(uid)
        with refused(KeyError):
            store.add_event(uid, NewEvent(kind="NOTE", message=""))
        again, is_new = store.add_job(new)
        assert is_new, "neither its name nor its retry key is taken"
        assert again.uid != uid
        assert read(store, other_uid).job.labels == {"a": "b"}
        labelled = Compare(field="labels.a", operator="=", value="b")
        [record] = store.list_jobs(
            JobQuery(project=PROJECT, kind=JobKind.CUSTOM_JOB, filter=labelled)
        )
        assert record.uid == other_uid
        assert store.replicas(other_uid, 1)
        assert store.events(other_uid)
        assert list(store.holding_changed(mark)[2]) == []

    def test_what_is_not_over_is_not_forgotten(self, store: Store, clock: HandClock) -> None:
        waits, runs = add(store).uid, add(store).uid
        place(store, runs)
        go(store, runs, JobState.RUNNING)
        clock.forward(1)
        assert _expired(store, clock) == []
        store.forget([waits, runs])
        assert read(store, waits).job.status.state is JobState.QUEUED
        assert read(store, runs).job.status.state is JobState.RUNNING
        assert store.expanded(waits)
        assert store.replicas(runs)

    def test_a_job_is_kept_until_its_stop_was_performed(
        self, store: Store, clock: HandClock
    ) -> None:
        uid = add(store).uid
        place(store, uid)
        go(store, uid, JobState.FAILED, commands=(Command.STOP,))
        clock.forward(1)
        assert _expired(store, clock) == []
        store.forget([uid])
        assert [command.uid for command in store.commands(SERVER)] == [uid]
        _confirm_all(store)
        assert _expired(store, clock) == [uid]
        store.forget([uid])
        assert store.job_by_uid(uid) is None

    def test_a_pipeline_goes_with_its_job(self, store: Store) -> None:
        document = json.dumps({"displayName": "train", "labels": {"team": "red"}})
        gone, other = (store.add_pipeline(new_job(), document, "task") for _ in range(2))
        go(store, gone.child_uid, JobState.CANCELLED)
        store.forget([gone.child_uid])
        assert store.pipeline(PROJECT, gone.uid) is None
        red = Compare(field="labels.team", operator="=", value="red")
        query = JobQuery(project=PROJECT, kind=JobKind.CUSTOM_JOB, filter=red)
        assert [pipeline.uid for pipeline, _ in store.list_pipelines(query)] == [other.uid]

    def test_many_are_forgotten_at_once(self, store: Store, clock: HandClock) -> None:
        uids = [add(store).uid for _ in range(40)]
        store.apply([Step(uid=uid, version=1, state=JobState.CANCELLED) for uid in uids])
        clock.forward(1)
        store.forget(_expired(store, clock, limit=30))
        assert _expired(store, clock, limit=99) == uids[30:]
