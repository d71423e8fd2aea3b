"""The store's contract: studies, whose every step is done as a whole or not at all."""

from dataclasses import replace
from datetime import timedelta

from store.builders import (
    LEASE_S,
    PROJECT,
    SERVER,
    HandClock,
    add,
    add_study,
    advance,
    go,
    kinds,
    new_trials,
    read,
    refused,
    reported,
    step_of,
    trial,
    trial_job,
    vertex_trial_job,
)
from trainshed.model.filters import Compare
from trainshed.model.status import FINAL, JobError, JobState
from trainshed.model.trials import TrialState
from trainshed.store.base import AlreadyThere
from trainshed.store.decisions import cancel_step
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind, JobQuery
from trainshed.store.records.steps import NewEvent
from trainshed.store.records.studies import NewTrial, StudyStep

S = JobState
BEGUN = NewEvent(kind="TRIALS", message="two trials begin")
#: A step in which there is something of everything; it is to be refused.
EVERYTHING = {
    "state": S.RUNNING,
    "new_trials": new_trials(2),
    "trials": (trial(1, state=TrialState.STOPPING),),
    "reports": (reported(1, 0.5),),
    "events": (BEGUN,),
}


def _same(store: Store, uid: int, step: StudyStep, error: type[Exception] | None) -> None:
    """The step is refused, and nothing of it is there."""

    def read_state() -> object:
        return read(store, uid), store.trials(uid), kinds(store, uid), store.waiting_count()

    before = read_state()
    if error is None:
        assert store.apply_study(step) is False
    else:
        with refused(error):
            store.apply_study(step)
    assert read_state() == before


class TestStudies:
    """The row of a study, and steps."""

    def test_a_study_prepares_at_once_and_is_nowhere_placed(self, store: Store) -> None:
        record = add_study(store)
        assert record.job.status.state is S.PREPARING
        assert record == read(store, record.uid)
        store.join(SERVER, LEASE_S)
        assert not store.waiting(limit=9)
        assert not store.unexplained(limit=9)
        assert store.queue_position(record.uid) is None
        assert not store.holding()
        assert not store.take_over(SERVER)
        assert not store.active(SERVER)
        assert kinds(store, record.uid) == ["ACCEPTED"]

    def test_open_studies_are_those_that_are_not_over_the_oldest_first(
        self, store: Store, clock: HandClock
    ) -> None:
        uids = []
        for number in range(4):
            uids.append(add_study(store, job_id=f"s{number}").uid)
            clock.forward(1)
        add(store)
        advance(store, uids[1], state=S.FAILED)
        advance(store, uids[2], state=S.RUNNING, new_trials=new_trials(1))
        studies = [(study.uid, study.state, study.version) for study in store.open_studies()]
        assert studies == [
            (uids[0], S.PREPARING, 1),
            (uids[2], S.RUNNING, 2),
            (uids[3], S.PREPARING, 1),
        ]

    def test_a_trial_comes_with_a_job_that_waits_like_any_other(
        self, store: Store, clock: HandClock
    ) -> None:
        uid = add_study(store).uid
        jobs = [replace(trial_job(n), waiting_s_max=60.0) for n in (1, 2)]
        new_trials = [NewTrial(trial=trial(n), job=job) for n, job in enumerate(jobs, 1)]
        rows = advance(store, uid, new_trials=tuple(new_trials), events=(BEGUN,))
        assert [row.trial for row in rows] == [trial(1), trial(2)]
        assert [row.job_name for row in rows] == ["tune/trials/1", "tune/trials/2"]
        assert {(row.job_state, row.job_attempt, row.mark) for row in rows} == {
            (S.QUEUED, 0, (0, 0))
        }
        assert kinds(store, uid) == ["ACCEPTED", "TRIALS"]
        waiting = store.waiting(limit=9)
        assert [row.uid for row in waiting] == [row.job_uid for row in rows]
        assert waiting[0].name == f"projects/{PROJECT}/jobs/tune/trials/1"
        assert kinds(store, rows[0].job_uid) == ["ACCEPTED"]
        assert store.expanded(rows[1].job_uid) == jobs[1].expanded
        record = store.job(PROJECT, JobKind.TRIAL, "tune/trials/1")
        assert record is not None
        assert record.uid == rows[0].job_uid
        assert record.job.spec == jobs[0].spec
        clock.forward(60)
        assert {due.uid for due in store.due(limit=9)} == {row.job_uid for row in rows}

    def test_a_step_needs_its_version_and_a_lease(self, store: Store, clock: HandClock) -> None:
        uid = add_study(store).uid
        advance(store, uid, new_trials=new_trials(1))
        _same(store, uid, step_of(store, uid, **EVERYTHING, version=1), None)
        _same(store, uid, step_of(store, uid, **EVERYTHING, server=SERVER), None)
        store.join(SERVER, LEASE_S)
        clock.forward(LEASE_S)
        _same(store, uid, step_of(store, uid, **EVERYTHING, server=SERVER), None)
        store.join(SERVER, LEASE_S)
        assert len(advance(store, uid, **EVERYTHING, server=SERVER)) == 2

    def test_what_cannot_be_added_undoes_the_whole_step(self, store: Store) -> None:
        uid = add_study(store).uid
        advance(store, uid, new_trials=new_trials(1))
        store.add_job(trial_job(3))
        twice = NewTrial(trial=trial(4), job=trial_job(2))
        existing = NewTrial(trial=trial(1), job=vertex_trial_job(1))
        for trials in (new_trials(2, 3), (*new_trials(2), twice), (*new_trials(2), existing)):
            step = step_of(store, uid, **{**EVERYTHING, "new_trials": trials})
            _same(store, uid, step, AlreadyThere)
        for unknown in ({"trials": (trial(9),)}, {"reports": (reported(9, 1.0),)}):
            _same(store, uid, step_of(store, uid, **{**EVERYTHING, **unknown}), KeyError)
        assert len(advance(store, uid, **EVERYTHING)) == 2

    def test_a_study_is_never_queued(self, store: Store) -> None:
        uid = add_study(store).uid
        _same(store, uid, step_of(store, uid, state=S.QUEUED), ValueError)

    def test_a_study_began_when_its_first_trial_did(self, store: Store, clock: HandClock) -> None:
        for state in (S.RUNNING, S.SUCCEEDED):
            uid = add_study(store, job_id=state.name).uid
            began = store.now()
            clock.forward(5)
            advance(store, uid, state=state, start_time=began)
            clock.forward(5)
            advance(store, uid, state=state)
            assert read(store, uid).job.status.start_time == began

    def test_a_study_runs_and_ends_as_other_jobs_do(self, store: Store, clock: HandClock) -> None:
        for state in sorted(FINAL, key=lambda s: s.name):
            uid = add_study(store, job_id=state.name).uid
            clock.forward(1)
            advance(store, uid, state=S.RUNNING)
            clock.forward(5)
            advance(store, uid, state=S.RUNNING)
            error = JobError(code=10, message="three trials have failed")
            advance(store, uid, state=state, error=error)
            record, status = read(store, uid), read(store, uid).job.status
            assert record.ran_s == 5
            assert status.start_time is not None
            assert status.end_time == status.update_time == status.start_time + timedelta(seconds=5)
            assert status.error == error
            assert not store.open_studies()
            clock.forward(5)
            advance(store, uid, events=(BEGUN,))
            assert read(store, uid).job.status.end_time == status.end_time
            for other in set(S) - {state, S.QUEUED}:
                _same(store, uid, step_of(store, uid, state=other), None)

    def test_a_study_may_wait_and_run_for_a_time(self, store: Store, clock: HandClock) -> None:
        uid = add_study(store, waiting_s_max=60.0, running_s_max=100.0).uid
        clock.forward(60)
        [due] = store.due(limit=9)
        assert (due.uid, due.state, due.attempt, due.has_run) == (uid, S.PREPARING, 0, False)
        advance(store, uid, new_trials=new_trials(1))
        assert [due.uid for due in store.due(limit=9)] == [uid], "a trial that waits is no start"
        advance(store, uid, state=S.RUNNING)
        clock.forward(99)
        assert not store.due(limit=9)
        clock.forward(1)
        [due] = store.due(limit=9)
        assert (due.uid, due.state, due.has_run) == (uid, S.RUNNING, True)
        go(store, uid, S.CANCELLING)
        assert not store.due(limit=9)

    def test_cancelling_a_study_asks_no_engine_for_anything(self, store: Store) -> None:
        uid = add_study(store).uid
        store.join(SERVER, LEASE_S)
        step = cancel_step(read(store, uid))
        assert step is not None
        assert list(store.apply([step])) == [True]
        assert read(store, uid).job.status.state is S.CANCELLING
        store.take_over(SERVER)
        assert not store.commands(SERVER)
        assert [study.state for study in store.open_studies()] == [S.CANCELLING]
        advance(store, uid, state=S.CANCELLED)
        error = read(store, uid).job.status.error
        assert error is not None
        assert error.code == 1, "that of the request is kept"

    def test_studies_are_listed_among_jobs_and_trials_of_ml_v1_nowhere(self, store: Store) -> None:
        uid, other = add_study(store).uid, add(store, kind=JobKind.ML_JOB, job_id="plain").uid
        advance(store, uid, state=S.RUNNING, new_trials=new_trials(1, 2))
        records = store.list_jobs(JobQuery(project=PROJECT, kind=JobKind.ML_JOB))
        assert {record.uid for record in records} == {uid, other}
        runs = Compare(field="state", operator="=", value="RUNNING")
        [record] = store.list_jobs(JobQuery(project=PROJECT, kind=JobKind.ML_JOB, filter=runs))
        assert record == read(store, uid)
