"""The store's contract: trials with their reports and jobs, and what is left of them later."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from store.builders import (
    PROJECT,
    HandClock,
    add_study,
    advance,
    end,
    ended,
    go,
    new_trials,
    place,
    read,
    reported,
    trial,
    trial_job,
    vertex_trial_job,
)
from trainshed.model.attempt import Report
from trainshed.model.status import JobError, JobState
from trainshed.model.trials import Measurement, TrialState
from trainshed.store import studies
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind, JobQuery
from trainshed.store.records.steps import NewEvent
from trainshed.store.records.studies import NewTrial, StoredTrial, TrialReports

S = JobState


class TestTrials:
    """Trials: what is stored of them, and how their jobs stand."""

    def test_a_trial_is_replaced_and_its_reports_are_not(
        self, store: Store, clock: HandClock
    ) -> None:
        uid = add_study(store).uid
        advance(store, uid, new_trials=new_trials(1, 2))
        advance(store, uid, reports=(reported(1, 0.1, 0.2, mark=7), reported(2, 0.5)))
        now = store.now()
        clock.forward(5)
        done = trial(
            1,
            state=TrialState.SUCCEEDED,
            final=Measurement(step=2, elapsed_s=1.5, metrics=(("accuracy", 0.3),)),
            stopped_early=True,
            start_time=now,
            end_time=store.now(),
        )
        again = (reported(1, 0.3, mark=9, attempt=2),)
        first, second = advance(store, uid, trials=(done,), reports=again)
        assert first.trial == done
        assert first.mark == (2, 9)
        assert [(r.step, r.value) for r in first.reports] == [(0, 0.1), (1, 0.2), (0, 0.3)]
        assert (second.trial, second.mark) == (trial(2), (1, 1))
        [first, _] = advance(store, uid, reports=(reported(1, mark=11, attempt=2),))
        assert (first.mark, len(first.reports)) == ((2, 11), 3), "a mark may come alone"

    def test_values_and_reports_come_back_as_they_were(self, store: Store) -> None:
        uid = add_study(store).uid
        odd = "\ud800 \x00 naïve \u2028"
        values = (("f", 1.0), ("i", 1), ("n", -0.0), ("s", odd), ("e", ""), ("big", 1e300))
        reason = f"the last {odd} was nan"
        new_trial = trial(1, values=values, state=TrialState.INFEASIBLE, infeasible_reason=reason)
        numbers = (math.inf, -math.inf, 5e-324, 0.1 + 0.2, -0.0)
        reports = tuple(Report(tag=odd, value=v, step=10**20, elapsed_s=0.1) for v in numbers)
        nan = Report(tag="", value=math.nan, step=-1)
        news = TrialReports(number=1, mark=(1, 2**62), reports=(*reports, nan))
        [row] = advance(
            store, uid, new_trials=(NewTrial(trial=new_trial, job=trial_job(1)),), reports=(news,)
        )
        assert row.trial == new_trial
        assert list(map(repr, row.trial.values)) == list(map(repr, values)), "1 is not 1.0"
        assert row.reports[:-1] == reports
        assert math.copysign(1, row.reports[-2].value) == -1
        assert math.isnan(row.reports[-1].value)
        assert row.mark == (1, 2**62)

    def test_a_page_has_the_reports_of_trials_without_a_final_measurement(
        self, store: Store
    ) -> None:
        uid = add_study(store).uid
        advance(store, uid, new_trials=new_trials(1, 2, 5))
        final = Measurement(step=1, metrics=(("accuracy", 0.3),))
        done = trial(1, state=TrialState.SUCCEEDED, final=final)
        reports = (reported(1, 0.3), reported(2, 0.4), reported(5, 0.5))
        whole = advance(store, uid, trials=(done,), reports=reports)
        first, second = store.trials_after(uid, after=0, limit=2)
        assert (first.trial, first.reports, second) == (done, (), whole[1])
        assert store.trials_after(uid, after=2, limit=9) == whole[2:]
        assert store.trials_after(uid, after=5, limit=9) == []
        assert store.newest_trials(uid, limit=2) == whole[1:]
        bare = store.newest_trials(uid, limit=2, with_reports=False)
        assert [(row.trial, row.reports) for row in bare] == [(row.trial, ()) for row in whole[1:]]
        assert store.newest_trials(uid, limit=9) == whole
        assert store.newest_trials(add_study(store, job_id="young").uid, limit=9) == []

    def test_results_are_those_of_all_trials_by_number_in_pages(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        uid = add_study(store).uid
        advance(store, uid, new_trials=new_trials(5, 1, 2))
        final = Measurement(step=1, metrics=(("accuracy", 0.3),))
        done = trial(1, state=TrialState.SUCCEEDED, final=final)
        whole = advance(store, uid, trials=(done,))
        expected = [replace(row.trial, values=()) for row in whole]
        for size in (1, 2, 3, 4):
            monkeypatch.setattr(studies, "RESULTS_PAGE", size)
            results = store.trial_results(uid)
            assert [result.trial for result in results] == expected
            assert [result.job_state for result in results] == [row.job_state for row in whole]
        assert store.trial_results(add_study(store, job_id="young").uid) == []

    def test_events_of_one_kind_come_newest_first(self, store: Store) -> None:
        uid = add_study(store).uid
        for number in (1, 2, 3):
            store.add_event(uid, NewEvent(kind="A", message="a", data={"trial": number}))
            store.add_event(uid, NewEvent(kind="B", message="b"))
        events = store.events_of_kind(uid, "A", limit=2)
        assert [event.data for event in events] == [{"trial": 3}, {"trial": 2}]

    def test_events_before_a_stamp_come_newest_first_in_pages(self, store: Store) -> None:
        uid = add_study(store).uid
        for number in (1, 2, 3):
            store.add_event(uid, NewEvent(kind="A", message=str(number)))
        events = store.events(uid)
        stamps = [event.stamp_ns for event in events]
        assert stamps == sorted(set(stamps))
        newest = store.events_before(uid, limit=2)
        assert newest == [events[-1], events[-2]]
        rest = store.events_before(uid, before=newest[-1].seq, limit=9)
        assert rest == events[-3::-1]
        assert store.events_before(uid, until_ns=stamps[-2], limit=1) == [events[-2]]
        assert store.events_before(uid, until_ns=stamps[0] - 1, limit=9) == []

    def test_a_trial_says_how_its_job_stands(self, store: Store, clock: HandClock) -> None:
        uid = add_study(store).uid
        job = vertex_trial_job(1)
        [row] = advance(store, uid, new_trials=(NewTrial(trial=trial(1), job=job),))
        assert row.job_name == str(row.job_uid), "the store names it"
        place(store, row.job_uid)
        go(store, row.job_uid, S.RUNNING)
        clock.forward(3)
        error = JobError(code=3, message="exit code 1")
        status = go(store, row.job_uid, S.FAILED, error=error).job.status
        [row] = store.trials(uid)
        assert (row.job_state, row.job_attempt, row.job_error) == (S.FAILED, 1, error)
        assert row.job_start_time == status.start_time
        assert row.job_end_time == status.end_time
        assert row.trial == trial(1), "what that means is for the study to say"

    def test_the_jobs_of_trials_are_known_without_their_reports(
        self, store: Store, clock: HandClock
    ) -> None:
        uid, other = add_study(store).uid, add_study(store, job_id="other").uid
        first, second, third = advance(store, uid, new_trials=new_trials(1, 2, 3))
        clock.forward(5)
        go(store, first.job_uid, S.FAILED)
        ended = store.now()
        go(store, third.job_uid, S.FAILED)
        store.forget([third.job_uid])
        rows = [(row.number, row.job_uid, row.end_time) for row in store.trial_jobs(uid)]
        assert rows == [(1, first.job_uid, ended), (2, second.job_uid, None)]
        assert not store.trial_jobs(other)

        assert not store.trials(1)

    def test_trials_come_by_number_and_belong_to_one_study(self, store: Store) -> None:
        uids = [add_study(store, job_id=name).uid for name in ("a", "b")]
        for number in (10, 2, 1):
            for uid, name in zip(uids, "ab", strict=True):
                job = trial_job(number, name)
                step = {"new_trials": (NewTrial(trial=trial(number), job=job),)}
                advance(store, uid, **step, reports=(reported(number, *([1.0] * number)),))
        advance(store, uids[0], trials=(trial(2, state=TrialState.STOPPING),))
        for uid in uids:
            assert [row.trial.number for row in store.trials(uid)] == [1, 2, 10]
            assert [len(row.reports) for row in store.trials(uid)] == [1, 2, 10]
        assert store.trials(uids[1])[1].trial.state is TrialState.ACTIVE


def _over(store: Store, *trials: NewTrial) -> tuple[int, Sequence[StoredTrial]]:
    """A study that has ended after its trials have."""
    uid = add_study(store).uid
    rows = advance(store, uid, new_trials=trials)
    for row in rows:
        go(store, row.job_uid, S.FAILED)
    numbers = [new.trial.number for new in trials]
    reports = tuple(reported(number, 0.5) for number in numbers)
    advance(store, uid, trials=tuple(map(ended, numbers)), reports=reports)
    end(store, uid)
    return uid, rows


class TestStudyEnds:
    """Deleting and forgetting."""

    def test_a_forgotten_study_leaves_its_trials_jobs_and_nothing_else(self, store: Store) -> None:
        uid, rows = _over(store, *new_trials(1, 2))
        store.forget([uid])
        assert store.job_by_uid(uid) is None
        assert not store.trials(uid)
        assert not store.trial_jobs(uid)
        for row in rows:
            assert read(store, row.job_uid).job.status.state is S.FAILED
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
        for row in (first, second, third):
            go(store, row.job_uid, S.FAILED)
        store.forget([row.job_uid for row in (first, second, third)])
        succeeded, failed, lost = store.trials(uid)
        assert (succeeded.trial, succeeded.job_state, succeeded.job_name) == (
            done,
            S.SUCCEEDED,
            "tune/trials/1",
        )
        assert (succeeded.job_attempt, succeeded.mark, len(succeeded.reports)) == (3, (3, 1), 1)
        assert (succeeded.job_start_time, succeeded.job_end_time) == (start, times["end_time"])
        assert (failed.trial, failed.job_state) == (ended(2), S.FAILED)
        assert lost.job_state is S.FAILED, "nobody waits for a job that is gone"

    def test_a_deleted_study_frees_the_names_of_its_trials(self, store: Store) -> None:
        uid, rows = _over(store, *new_trials(1))
        store.delete_job(uid)
        assert store.job(PROJECT, JobKind.TRIAL, "tune/trials/1") is None
        assert [row.trial for row in store.trials(uid)] == [ended(1)], "its story stays"
        again = add_study(store).uid
        [fresh] = advance(store, again, new_trials=new_trials(1))
        assert fresh.job_uid != rows[0].job_uid
        store.delete_job(uid)
        store.forget([uid])
        record = store.job(PROJECT, JobKind.TRIAL, "tune/trials/1")
        assert record is not None
        assert record.uid == fresh.job_uid, "it is not the old study's"

    def test_a_study_that_is_not_over_is_not_deleted_nor_are_its_trials(self, store: Store) -> None:
        uid = add_study(store).uid
        advance(store, uid, new_trials=new_trials(1))
        store.delete_job(uid)
        store.forget([uid])
        assert store.job(PROJECT, JobKind.TRIAL, "tune/trials/1") is not None
        assert len(store.trials(uid)) == 1

    def test_trials_of_vertex_stay_in_the_list_when_their_study_is_deleted(
        self, store: Store
    ) -> None:
        uid, rows = _over(store, NewTrial(trial=trial(1), job=vertex_trial_job(1)))
        store.delete_job(uid)
        [record] = store.list_jobs(JobQuery(project=PROJECT, kind=JobKind.CUSTOM_JOB))
        assert record.uid == rows[0].job_uid

    def test_a_job_that_is_no_study_frees_no_trials_names(self, store: Store) -> None:
        store.add_job(trial_job(1))
        uid = add_study(store).uid
        end(store, uid)
        store.delete_job(uid)
        assert store.job(PROJECT, JobKind.TRIAL, "tune/trials/1") is not None
