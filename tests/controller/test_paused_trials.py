"""Trials that successive halving pauses and resumes: their jobs, and what a crash leaves."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from controller.tuning_world import (
    CANCELLED,
    SUCCEEDED,
    TuningWorld,
    run_to_end,
    score,
    script,
    step_all,
    study,
)
from controller.world import nodes
from trainshed.controller.worker import Pace
from trainshed.model.attempt import AttemptKey, Loss
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.job import Scheduling
from trainshed.model.restarts import Restarts
from trainshed.model.status import FINAL, JobState
from trainshed.model.step_times import StepTimes
from trainshed.model.stopping import StopReason
from trainshed.model.study import Algorithm, AshaRule
from trainshed.model.trials import TRIAL_PAUSED, TRIAL_RESUMED, TRIAL_STOPPED_EARLY, TrialState
from trainshed.store.records.steps import NewEvent

STEPS = 9
SAVED = StepTimes(steps=1, checkpoint_step=1, checkpoint_at=1.0)
HALVING = AshaRule(first_rung=3, pauses=True)
FOLDER = "gs://bucket/study"
#: With this seed the first three of nine points are the best ones.
UID = 4735


class Trainer:
    """Programs that report a step a second, and go on after the steps of earlier attempts."""

    def __init__(self, *, steps=SAVED, **more):
        self.steps, self.more = steps, more
        self.world = None

    def __call__(self, key, plan):
        done = sum(self.world.engine.measured(one, 0).mark for one in key.earlier)
        course = script(key, plan, curve=lambda values, _step: score(values))
        one = course.reports[0][1]
        reports = tuple(
            (float(step - done), one._replace(step=step)) for step in range(done + 1, STEPS + 1)
        )
        runs_s = STEPS - done + 1.0
        return replace(course, reports=reports, runs_s=runs_s, steps=self.steps, **self.more)


@pytest.fixture
def make_world(tmp_path):
    worlds = []

    def make(trainer=None, count=4):
        trainer = trainer or Trainer()
        trainer.world = TuningWorld(tmp_path / str(len(worlds)), nodes(count), script=trainer)
        worlds.append(trainer.world)
        return trainer.world

    yield make
    for world in worlds:
        world.close()


def halving(**more):
    fields = {"trial_count_max": 9, "trial_count_parallel": 3, "stopping": HALVING}
    return study(**{"algorithm": Algorithm.RANDOM_SEARCH, **fields, **more})


def kinds(world, uid):
    return Counter(event.kind for event in world.store.events(uid))


def numbers(world, uid, kind):
    return {event.data["trial"] for event in world.store.events_of_kind(uid, kind, limit=100)}


def run_until(world, controller, is_so, seconds=100):
    until = world.clock.s + seconds
    while not is_so():
        assert world.clock.s < until
        step_all(controller)
        world.clock.s += 1.0


def states(world, uid):
    return {one.trial.number: one.trial.state for one in world.store.trials(uid)}


def paused_job(world, uid):
    """The job of the first trial that is paused, with its attempt ended; 0 while there is none."""
    for one in world.store.trials(uid):
        if one.trial.state is TrialState.PAUSED and one.job_is_held:
            return one.job_uid
    return 0


def test_a_paused_trial_goes_on_where_it_stopped_and_ends_at_the_top_rung(make_world):
    world = make_world()
    uid = world.tune(halving(), uid=UID, folder=FOLDER)
    assert run_to_end(world, world.controller(), uid) == [SUCCEEDED]
    paused, resumed = numbers(world, uid, TRIAL_PAUSED), numbers(world, uid, TRIAL_RESUMED)
    assert paused >= resumed
    whole = {view.trial.number for view in world.trials(uid) if not view.trial.stopped_early}
    assert resumed & whole, "a resumed trial may come to its end"
    for one in world.store.trials(uid):
        assert one.trial.state is TrialState.SUCCEEDED
        assert world.state(one.job_uid) is (CANCELLED if one.trial.stopped_early else SUCCEEDED)
        steps = [report.step for report in one.reports]
        assert steps == sorted(set(steps)), "no step is trained twice"
        assert one.job_attempt == 1 + (one.trial.number in resumed)
        assert world.job(one.job_uid).restarts == Restarts()
    assert not world.engine.violations


def test_the_best_third_of_a_rung_has_passed_it_in_the_end(make_world):
    world = make_world()
    uid = world.tune(halving(), uid=UID, folder=FOLDER)
    run_to_end(world, world.controller(), uid)
    trials = [view.trial for view in world.trials(uid)]
    best = sorted(trials, key=lambda trial: -trial.final.value("acc"))[:3]
    assert all(trial.final.step > 3 for trial in best)
    stopped = make_world()
    without = halving(stopping=replace(HALVING, pauses=False))
    other = stopped.tune(without, uid=UID, folder=FOLDER)
    run_to_end(stopped, stopped.controller(), other)
    assert not kinds(stopped, other)[TRIAL_PAUSED]


def test_the_job_of_a_paused_trial_holds_no_place_and_says_why(make_world):
    world = make_world()
    uid = world.tune(halving(), uid=UID, folder=FOLDER)
    controller = world.controller()
    run_until(world, controller, lambda: paused_job(world, uid))
    job = world.job(paused_job(world, uid))
    assert (job.job.status.state, job.is_held, job.is_paused) == (JobState.QUEUED, True, True)
    why = job.job.explanation
    assert why.reason is Reason.PAUSED
    assert " is paused at step " in why.message
    assert ", rank " in why.message
    assert why.message.endswith("its study resumes it when it is among the best of its rung")
    assert job.uid not in {holding.uid for holding in world.store.holding()}
    step_all(controller)
    order, end = world.engine.orders[AttemptKey(job.uid, 1)][:2]
    assert (order.reason, end.reason) == (StopReason.PAUSE, StopReason.END)
    assert "the job waits." in world.messages(job.uid)


@pytest.mark.parametrize(
    ("trainer", "more"),
    [
        ({"steps": None}, {"folder": FOLDER}),
        ({"steps": replace(SAVED, checkpoint_at=0.0)}, {"folder": FOLDER}),
        ({}, {"folder": None}),
        ({}, {"folder": FOLDER, "scheduling": Scheduling(disable_retries=True)}),
    ],
    ids=("no report", "no checkpoint", "no folder", "no retries"),
)
def test_a_trial_that_cannot_go_on_is_stopped_for_good(make_world, trainer, more):
    world = make_world(Trainer(**trainer))
    uid = world.tune(halving(), uid=UID, **more)
    assert run_to_end(world, world.controller(), uid) == [SUCCEEDED]
    assert not kinds(world, uid)[TRIAL_PAUSED]
    assert kinds(world, uid)[TRIAL_STOPPED_EARLY]
    assert {one.job_attempt for one in world.store.trials(uid)} == {1}


def test_a_server_that_is_killed_between_the_study_and_its_jobs_pauses_and_resumes(make_world):
    world = make_world()
    uid = world.tune(halving(), uid=UID, folder=FOLDER)
    drawn = random.Random(7)  # noqa: S311
    while not world.is_over(uid):
        assert world.clock.s < 2000, world.messages(uid)
        controller = world.controller()
        if drawn.random() < 0.4:  # it dies after the step of the study
            controller._studies._jobs = _Dead()
        step_all(controller)
        world.clock.s += 0.5
    assert world.state(uid) is SUCCEEDED
    assert numbers(world, uid, TRIAL_RESUMED)
    assert all(world.state(one.job_uid) in FINAL for one in world.store.trials(uid))
    assert not world.engine.violations


class _Dead:
    def follow(self, _uid, _trials):
        return 0


def test_a_trial_is_resumed_although_its_job_still_ends_to_be_paused(make_world):
    world = make_world(Trainer(notice_s=3.0))
    uid = world.tune(halving(), uid=UID, folder=FOLDER)
    controller = world.controller(pace=Pace(grace_s=20.0))
    run_until(world, controller, lambda: numbers(world, uid, TRIAL_PAUSED) == {2, 3})
    step_all(controller)
    best, second, third = world.store.trials(uid)
    paused = [one.job_uid for one in (second, third)]
    assert {world.state(job) for job in paused} == {JobState.RESTARTING}
    world.engine.end(AttemptKey(best.job_uid, 1), 1)  # two are left at the rung: both go on
    run_until(world, controller, lambda: numbers(world, uid, TRIAL_RESUMED) == {2, 3})
    assert {world.state(job) for job in paused} == {JobState.RESTARTING}
    run_until(world, controller, lambda: {world.job(job).attempt for job in paused} == {2})
    assert run_to_end(world, controller, uid) == [SUCCEEDED]
    assert not world.engine.violations


def test_a_trial_that_succeeds_before_its_pause_has_succeeded(make_world):
    world = make_world(Trainer(notice_s=20.0))
    uid = world.tune(halving(), uid=UID, folder=FOLDER)
    controller = world.controller()
    controller.lease_once()
    run_until(world, controller, lambda: kinds(world, uid)[TRIAL_PAUSED])
    number = min(numbers(world, uid, TRIAL_PAUSED))
    job = next(o.job_uid for o in world.store.trials(uid) if o.trial.number == number)
    assert world.state(job) is JobState.RESTARTING
    world.engine.end(AttemptKey(job, 1), 0)
    run_until(world, controller, lambda: states(world, uid)[number] is not TrialState.PAUSED)
    view = next(view for view in world.trials(uid) if view.trial.number == number)
    assert (view.trial.state, view.trial.stopped_early) == (TrialState.SUCCEEDED, False)


def test_an_attempt_that_is_lost_while_it_ends_is_paused_too(make_world):
    world = make_world(Trainer(notice_s=20.0))
    uid = world.tune(halving(), uid=UID, folder=FOLDER)
    controller = world.controller()
    run_until(world, controller, lambda: kinds(world, uid)[TRIAL_PAUSED])
    number = min(numbers(world, uid, TRIAL_PAUSED))
    job = next(o.job_uid for o in world.store.trials(uid) if o.trial.number == number)
    controller.perform_once()
    world.engine.lose(AttemptKey(job, 1), loss=Loss.INFRA)
    controller.observe_once()
    assert world.job(job).is_paused
    assert world.job(job).restarts.infra == 0


def test_a_job_that_waits_again_is_paused_at_once(make_world):
    world = make_world()
    uid = world.tune(halving(), uid=UID, folder=FOLDER)
    controller = world.controller()
    run_until(world, controller, lambda: paused_job(world, uid))
    job = paused_job(world, uid)
    assert world.store.resume(job, NewEvent(kind="RESUMED", message="by hand"))
    assert not world.job(job).is_held
    controller.studies_once()
    assert world.job(job).is_paused
    assert world.job(job).attempt == 1


def test_a_study_continues_while_the_steps_of_a_trial_cannot_be_read(make_world, monkeypatch):
    world = make_world()
    uid = world.tune(halving(), uid=UID, folder=FOLDER)

    def read_steps(_key, _task):
        raise OSError("its engine is away")

    monkeypatch.setattr(world.engine, "read_steps", read_steps)
    assert run_to_end(world, world.controller(), uid) == [SUCCEEDED]
    assert not kinds(world, uid)["STUDY_HELD_UP"]
    assert kinds(world, uid)[TRIAL_STOPPED_EARLY]


def test_the_scheduler_does_not_replace_why_a_job_is_held(make_world):
    """It may have read the queue before the job was held; the study resumes by this reason."""
    world = make_world()
    uid = world.tune(halving(), uid=UID, folder=FOLDER)
    controller = world.controller()
    run_until(world, controller, lambda: paused_job(world, uid))
    job = paused_job(world, uid)
    world.store.explain({job: Explanation(reason=Reason.CAPACITY, message="no room")})
    assert world.job(job).is_paused


def test_a_cancelled_study_ends_its_paused_trials_with_their_results(make_world):
    world = make_world()
    uid = world.tune(halving(), uid=UID, folder=FOLDER)
    controller = world.controller()
    run_until(world, controller, lambda: paused_job(world, uid))
    job = paused_job(world, uid)
    world.cancel(uid)
    assert run_to_end(world, controller, uid) == [CANCELLED]
    view = next(
        v
        for v, o in zip(world.trials(uid), world.store.trials(uid), strict=True)
        if o.job_uid == job
    )
    assert (view.trial.state, view.trial.stopped_early) == (TrialState.SUCCEEDED, True)
    assert world.state(job) is CANCELLED


def test_limits_of_waiting_and_running_do_not_count_a_pause(make_world):
    world = make_world()
    uid = world.tune(halving(trial_count_max=30), uid=UID, folder=FOLDER)
    controller = world.controller()
    run_until(world, controller, lambda: paused_job(world, uid))
    job = paused_job(world, uid)
    ran_s = world.job(job).ran_s
    world.clock.s += 10.0
    assert world.job(job).ran_s == ran_s
    assert all(due.uid != job for due in world.store.due(limit=100))
