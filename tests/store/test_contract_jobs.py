"""The store's contract: jobs are stored once, found by name, and keep what was asked for."""

from dataclasses import replace
from datetime import timedelta

from store.builders import (
    DEMAND,
    PROJECT,
    HandClock,
    add,
    go,
    kinds,
    new_job,
    place,
    read,
    refused,
)
from trainshed.model.status import JobState
from trainshed.store.base import AlreadyThere, StaleEtag
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind, JobQuery
from trainshed.store.records.steps import NewEvent

RETRY_S = 600


class TestJobs:
    """Adding, naming, labelling, deleting."""

    def test_a_new_job_waits_and_reads_back_as_it_was_answered(self, store: Store) -> None:
        record = add(store, labels={"team": "red"}, notes=("no GPUs here",))
        assert read(store, record.uid) == record
        assert store.job(PROJECT, JobKind.CUSTOM_JOB, record.job.job_id) == record
        assert record.job.status.state is JobState.QUEUED
        assert (record.version, record.attempt, record.owner) == (1, 0, None)
        assert record.job.status.create_time == record.job.status.update_time
        assert store.notes(record.uid) == ("no GPUs here",)
        assert kinds(store, record.uid) == ["ACCEPTED"]

    def test_the_first_events_of_a_job_come_behind_who_has_submitted_it(self, store: Store) -> None:
        new_events = (
            NewEvent(kind="ONE", message="", data={"x": 1}),
            NewEvent(kind="TWO", message=""),
        )
        record = add(store, events=new_events)
        store.add_event(record.uid, NewEvent(kind="THREE", message=""))
        events = store.events(record.uid)
        assert [event.kind for event in events] == ["ACCEPTED", "ONE", "TWO", "THREE"]
        assert events[1].data == {"x": 1}
        stamps = [event.stamp_ns for event in events]
        assert stamps == sorted(set(stamps))

    def test_the_spec_to_launch_is_the_expanded_one(self, store: Store) -> None:
        new = new_job(request='{"a": 1}', envelope='{"b": 2}')
        record, _ = store.add_job(new)
        assert record.job.spec == new.spec
        assert store.expanded(record.uid) == new.expanded
        same = replace(new, expanded=new.spec)
        assert store.expanded(store.add_job(same)[0].uid) == same.spec
        assert store.waiting(limit=1)[0].demand == DEMAND

    def test_what_is_not_there_is_none_or_a_key_error(self, store: Store) -> None:
        assert store.job(PROJECT, JobKind.ML_JOB, "nobody") is None
        assert store.job_by_uid(1) is None
        assert store.queue_position(1) is None
        assert list(store.events(1)) == []
        assert list(store.replicas(1)) == []
        for ask in (store.expanded, store.notes, lambda uid: store.set_labels(uid, {}, None)):
            with refused(KeyError):
                ask(1)
        with refused(KeyError):
            store.add_event(1, NewEvent(kind="NOTE", message=""))

    def test_a_nameless_job_is_named_after_its_uid(self, store: Store) -> None:
        first, second = add(store), add(store)
        assert first.job.job_id == str(first.uid)
        assert 0 < first.uid < second.uid < 2**63

    def test_an_id_is_given_once_in_a_project_and_kind(self, store: Store) -> None:
        add(store, kind=JobKind.ML_JOB, job_id="j")
        with refused(AlreadyThere):
            store.add_job(new_job(kind=JobKind.ML_JOB, job_id="j"))
        add(store, kind=JobKind.CUSTOM_JOB, job_id="j")
        add(store, kind=JobKind.ML_JOB, job_id="j", project="other")
        add(store, kind=JobKind.ML_JOB, job_id="J")
        assert store.waiting_count() == 4

    def test_a_repeated_create_finds_the_first_job(self, store: Store, clock: HandClock) -> None:
        new = new_job(retry_key="gcloud/1")
        first, _ = store.add_job(new)
        clock.forward(RETRY_S - 1)
        assert store.add_job(new) == (first, False)
        assert store.job_of_key("gcloud/1") == first
        assert store.job_of_key("gcloud/2") is None
        clock.forward(2)
        assert store.job_of_key("gcloud/1") is None
        later, is_new = store.add_job(new)
        assert is_new
        assert later.uid != first.uid
        assert store.add_job(new) == (later, False)

    def test_a_repeated_create_of_a_named_job_finds_it_too(self, store: Store) -> None:
        new = new_job(kind=JobKind.ML_JOB, job_id="j", retry_key="gcloud/1")
        first, _ = store.add_job(new)
        assert store.add_job(new) == (first, False)

    def test_a_refused_create_leaves_its_retry_key_free(self, store: Store) -> None:
        add(store, kind=JobKind.ML_JOB, job_id="j")
        duplicate = new_job(kind=JobKind.ML_JOB, job_id="j", retry_key="k")
        for _ in range(2):
            with refused(AlreadyThere):
                store.add_job(duplicate)

    def test_labels_change_with_the_etag_and_only_with_it(
        self, store: Store, clock: HandClock
    ) -> None:
        record = add(store, labels={"team": "red"})
        clock.forward(1)
        changed = store.set_labels(record.uid, {"team": "blue"}, record.job.etag)
        assert changed.job.labels == {"team": "blue"}
        assert changed.job.spec.labels == {"team": "red"}
        assert changed.job.etag != record.job.etag
        moved = changed.job.status.update_time
        assert record.job.status.update_time is not None
        assert moved == record.job.status.update_time + timedelta(seconds=1)
        with refused(StaleEtag):
            store.set_labels(record.uid, {}, record.job.etag)
        assert store.set_labels(record.uid, {}, None).job.labels == {}

    def test_a_final_job_can_be_deleted_and_its_story_stays(self, store: Store) -> None:
        record = add(store, kind=JobKind.ML_JOB, job_id="j")
        store.delete_job(record.uid)
        assert store.job(PROJECT, JobKind.ML_JOB, "j") is not None, "it is not final"
        go(store, record.uid, JobState.CANCELLED)
        store.delete_job(record.uid)
        assert store.job(PROJECT, JobKind.ML_JOB, "j") is None
        assert not store.list_jobs(JobQuery(project=PROJECT, kind=JobKind.ML_JOB))
        assert store.counts() == {}
        assert read(store, record.uid).uid == record.uid
        assert kinds(store, record.uid) == ["ACCEPTED"]
        with refused(KeyError):
            store.set_labels(record.uid, {}, None)
        assert add(store, kind=JobKind.ML_JOB, job_id="j").uid != record.uid

    def test_counts_are_by_project_and_state(self, store: Store) -> None:
        uids = [add(store).uid for _ in range(3)]
        add(store, project="other")
        place(store, uids[0])
        assert store.counts() == {
            (PROJECT, "QUEUED"): 2,
            (PROJECT, "PREPARING"): 1,
            ("other", "QUEUED"): 1,
        }

    def test_stamps_ascend_in_a_job_though_the_clock_stands_or_goes_back(
        self, store: Store, clock: HandClock
    ) -> None:
        uid = add(store).uid
        for seconds in (0, -5, 0, 60):
            clock.forward(seconds)
            store.add_event(uid, NewEvent(kind="NOTE", message="m", data={"n": [1, None]}))
        two = tuple(NewEvent(kind=word, message=word) for word in ("ONE", "TWO"))
        version = read(store, uid).version
        go(store, uid, JobState.CANCELLED, events=two)
        events = store.events(uid)
        assert [e.kind for e in events] == ["ACCEPTED", *["NOTE"] * 4, "ONE", "TWO"]
        stamps = [e.stamp_ns for e in events]
        assert stamps == sorted(set(stamps))
        assert stamps[-2] == clock.now_ns + 1
        assert events[1].data == {"n": [1, None]}
        assert version == 1, "an event is not a change of the job"

    def test_a_story_is_read_in_pages(self, store: Store) -> None:
        uid, other = add(store).uid, add(store).uid
        for number in range(5):
            store.add_event(uid, NewEvent(kind=f"N{number}", message=""))
            store.add_event(other, NewEvent(kind="OTHER", message=""))
        first = store.events(uid, limit=4)
        rest = store.events(uid, after=first[-1].seq)
        assert [e.kind for e in (*first, *rest)] == ["ACCEPTED", "N0", "N1", "N2", "N3", "N4"]

    def test_what_a_story_said_last_of_some_kinds_is_found_without_reading_it(
        self, store: Store
    ) -> None:
        uid, other = add(store, job_id="a").uid, add(store, job_id="b").uid
        for kind, message in (("A", "one"), ("B", "two"), ("C", "three"), ("A", "four")):
            store.add_event(uid, NewEvent(kind=kind, message=message))
            store.add_event(other, NewEvent(kind=kind, message=f"another's {message}"))
        assert store.last_messages(uid, ["A", "B", "D"]) == {"A": "four", "B": "two"}
        assert store.last_messages(uid, ["D"]) == {}

    def test_texts_that_databases_cannot_hold_do_no_harm(self, store: Store) -> None:
        odd = "a\x00b\ud800c\N{SNOWMAN}"
        record = add(store, job_dir=odd, labels={odd: odd}, notes=(odd,), retry_key=odd)
        uid = record.uid
        store.add_event(uid, NewEvent(kind="NOTE", message=odd, data={"text": odd}))
        assert read(store, uid) == record
        assert record.job.spec.job_dir == odd
        assert store.notes(uid) == (odd,)
        note = store.events(uid)[-1]
        assert note.message == "a\ufffdb\ufffdc\N{SNOWMAN}"
        assert note.data == {"text": odd}
        assert store.job(PROJECT, JobKind.ML_JOB, odd) is None
