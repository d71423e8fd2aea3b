"""The store's contract: what is left of studies, and of trials, that were deleted or forgotten."""
# ruff: noqa: D102, S101 - tests by name, made of asserts

from collections.abc import Sequence

from trainshed.model.status import JobState
from trainshed.model.trials import TrialState
from trainshed.store.opening import Store
from trainshed.store.records import JobQuery, Kind, NewTrial, StoredTrial
from trainshed.testing.store_builders import PROJECT, HandClock, go, read
from trainshed.testing.study_builders import (
    add_study,
    advance,
    end,
    ended,
    new_trials,
    reported,
    trial,
    trial_job,
    vertex_trial_job,
)

S = JobState


def _over(store: Store, *trials: NewTrial) -> tuple[int, Sequence[StoredTrial]]:
    """A study that has ended after its trials have."""
    uid = add_study(store).uid
    found = advance(store, uid, new_trials=trials)
    for each in found:
        go(store, each.job_uid, S.FAILED)
    numbers = [each.trial.number for each in trials]
    reports = tuple(reported(number, 0.5) for number in numbers)
    advance(store, uid, trials=tuple(map(ended, numbers)), reports=reports)
    end(store, uid)
    return uid, found


class StudyEndsContract:
    """Deleting and forgetting."""

    def test_a_forgotten_study_leaves_its_trials_jobs_and_nothing_else(self, store: Store) -> None:
        uid, found = _over(store, *new_trials(1, 2))
        store.forget([uid])
        assert store.job_by_uid(uid) is None
        assert not store.trials(uid)
        for each in found:
            assert store.study_of(each.job_uid) is None
            assert read(store, each.job_uid).job.status.state is S.FAILED
        again = add_study(store).uid
        assert not advance(store, again, new_trials=new_trials(1, 2))[0].reports

    def test_a_trial_outlives_its_job(self, store: Store, clock: HandClock) -> None:
        uid = add_study(store).uid
        first, second, third = advance(store, uid, new_trials=new_trials(1, 2, 3))
        start = store.now()
        clock.forward(5)
        times = {"start_time": start, "end_time": store.now()}
        done = trial(1, state=TrialState.SUCCEEDED, **times)
        advance(
            store, uid, trials=(done, ended(2)), reports=(reported(1, 0.5, attempt=3), reported(2))
        )
        for each in (first, second, third):
            go(store, each.job_uid, S.FAILED)
        store.forget([each.job_uid for each in (first, second, third)])
        kept, failed, lost = store.trials(uid)
        assert (kept.trial, kept.job_state, kept.job_name) == (done, S.SUCCEEDED, "tune/trials/1")
        assert (kept.job_attempt, kept.mark, len(kept.reports)) == (3, (3, 1), 1)
        assert (kept.job_start_time, kept.job_end_time) == (start, times["end_time"])
        assert (failed.trial, failed.job_state) == (ended(2), S.FAILED)
        assert lost.job_state is S.FAILED, "nobody waits for a job that is gone"

    def test_a_deleted_study_frees_the_names_of_its_trials(self, store: Store) -> None:
        uid, found = _over(store, *new_trials(1))
        store.delete_job(uid)
        assert store.job(PROJECT, Kind.TRIAL, "tune/trials/1") is None
        assert [each.trial for each in store.trials(uid)] == [ended(1)], "its story stays"
        again = add_study(store).uid
        [fresh] = advance(store, again, new_trials=new_trials(1))
        assert fresh.job_uid != found[0].job_uid
        store.delete_job(uid)
        store.forget([uid])
        record = store.job(PROJECT, Kind.TRIAL, "tune/trials/1")
        assert record is not None
        assert record.uid == fresh.job_uid, "it is not the old study's"

    def test_a_study_that_is_not_over_is_not_deleted_nor_are_its_trials(self, store: Store) -> None:
        uid = add_study(store).uid
        advance(store, uid, new_trials=new_trials(1))
        store.delete_job(uid)
        store.forget([uid])
        assert store.job(PROJECT, Kind.TRIAL, "tune/trials/1") is not None
        assert len(store.trials(uid)) == 1

    def test_trials_of_vertex_stay_in_the_list_when_their_study_is_deleted(
        self, store: Store
    ) -> None:
        uid, found = _over(store, NewTrial(trial=trial(1), job=vertex_trial_job(1)))
        store.delete_job(uid)
        [listed] = store.list_jobs(JobQuery(project=PROJECT, kind=Kind.CUSTOM_JOB))
        assert listed.uid == found[0].job_uid

    def test_a_job_that_is_no_study_frees_no_trials_names(self, store: Store) -> None:
        store.add_job(trial_job(1))
        uid = add_study(store).uid
        end(store, uid)
        store.delete_job(uid)
        assert store.job(PROJECT, Kind.TRIAL, "tune/trials/1") is not None
