"""The store's contract: a mark of a job changes whenever its row in a list does."""

from datetime import timedelta

from store.builders import (
    PLACED,
    PROJECT,
    HandClock,
    add,
    add_study,
    advance,
    fill_queue,
    go,
    new_trials,
    place,
    reported,
)
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.status import JobState
from trainshed.store.front import FRONT_MAX
from trainshed.store.opening import Store

WHY = Explanation(reason=Reason.CAPACITY, message="full")


class TestMarks:
    """Marks of jobs and trials."""

    def test_open_jobs_have_marks_that_each_change_alters(self, store: Store) -> None:
        uid = add(store).uid
        other = add(store).uid
        marks = [store.open_marks()]
        store.explain({uid: WHY})
        marks.append(store.open_marks())
        place(store, uid)
        marks.append(store.open_marks())
        go(store, uid, JobState.RUNNING)
        marks.append(store.open_marks())
        assert len({mark[uid] for mark in marks}) == 4
        assert len({mark[other] for mark in marks}) == 1
        go(store, uid, JobState.SUCCEEDED)
        assert set(store.open_marks()) == {other}

    def test_a_job_that_falls_behind_the_front_has_another_mark(self, store: Store) -> None:
        first = add(store)
        fill_queue(store, first.uid, jobs=FRONT_MAX - 1)
        last = add(store)
        before = store.open_marks()[last.uid]
        go(store, first.uid, JobState.CANCELLED)
        assert store.open_marks()[last.uid] != before, "it came to the front"

    def test_marks_of_some_jobs_are_there_until_they_are_deleted(self, store: Store) -> None:
        uid = add(store).uid
        assert store.marks_of([uid, 7]) == {uid: store.open_marks()[uid]}
        go(store, uid, JobState.CANCELLED)
        assert set(store.marks_of([uid])) == {uid}
        store.delete_job(uid)
        assert store.marks_of([uid]) == {}

    def test_jobs_are_found_by_the_time_of_their_end(self, store: Store, clock: HandClock) -> None:
        early, late, deleted = (add(store).uid for _ in range(3))
        add(store)
        go(store, early, JobState.CANCELLED)
        clock.forward(10)
        since = store.now()
        for uid in (late, deleted):
            go(store, uid, JobState.CANCELLED)
        store.delete_job(deleted)
        assert store.ended_since(since, limit=9) == {late}
        assert store.ended_since(since - timedelta(seconds=10), limit=9) == {early, late}
        assert store.ended_since(since - timedelta(seconds=10), limit=1) == {late}

    def test_the_last_stamp_is_that_of_the_newest_event(
        self, store: Store, clock: HandClock
    ) -> None:
        uid = add(store).uid
        before = store.last_stamps([uid])[uid]
        clock.forward(1)
        go(store, uid, JobState.QUEUED, events=(PLACED,))
        assert store.last_stamps([uid])[uid] > before
        assert store.last_stamps([7]) == {}

    def test_rows_of_some_jobs_leave_out_deleted_jobs_and_trials(self, store: Store) -> None:
        study = add_study(store)
        advance(store, study.uid, new_trials=new_trials(1))
        [trial] = store.trial_jobs(study.uid)
        ended = add(store, display_name="ended").uid
        go(store, ended, JobState.CANCELLED)
        rows = store.job_rows_of([study.uid, trial.job_uid, ended])
        assert {row.uid for row in rows} == {study.uid, ended}
        states = store.open_states()
        assert states == {study.uid: (PROJECT, "PREPARING")}
        store.delete_job(ended)
        assert {row.uid for row in store.job_rows_of([ended])} == set()

    def test_a_trial_has_another_mark_after_each_change_and_report(self, store: Store) -> None:
        study = add_study(store)
        advance(store, study.uid, new_trials=new_trials(1, 2))
        marks = [store.trial_marks(study.uid)]
        [first, _] = store.trial_jobs(study.uid)
        place(store, first.job_uid)
        marks.append(store.trial_marks(study.uid))
        advance(store, study.uid, reports=(reported(1, 0.5),))
        marks.append(store.trial_marks(study.uid))
        assert [set(mark) for mark in marks] == [{1, 2}] * 3
        assert len({mark[1] for mark in marks}) == 3
        assert len({mark[2] for mark in marks}) == 1
