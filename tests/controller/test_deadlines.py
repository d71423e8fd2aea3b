"""Jobs whose time to wait or to run is over are cancelled, with an error that says so."""

from controller.world import START, World, go, nodes, runs
from store.builders import add_study, step_of
from trainshed.model.job import Scheduling
from trainshed.model.status import JobState
from trainshed.model.stopping import StopReason
from trainshed.wire.aiplatform_v1 import render as aiplatform_v1
from trainshed.wire.ml_v1 import render as ml_v1

HOUR = Scheduling(running_s_max=3600.0)


def pass_time(world, controller, seconds):
    world.clock.s += seconds
    go(controller, 2)


def test_a_job_that_runs_too_long_is_stopped_and_told_why(make_world):
    world: World = make_world(script=runs(notice_s=None))
    controller = world.controller()
    uid = world.submit(scheduling=HOUR)
    go(controller)
    pass_time(world, controller, 3590)
    assert world.state(uid) is JobState.RUNNING
    pass_time(world, controller, 11)
    assert world.state(uid) is JobState.CANCELLING
    [order] = world.engine.orders[world.key(uid)]
    assert order.reason is StopReason.TIMEOUT
    assert "scheduling.timeout" in order.message
    pass_time(world, controller, 2)
    record = world.job(uid)
    assert record.job.status.state is JobState.CANCELLED
    assert record.job.status.error.code == 4
    assert record.job.status.error.message == (
        "The job ran for longer than the 3600 s of scheduling.timeout."
    )
    assert "TIMEOUT" in world.story(uid)
    document = aiplatform_v1.custom_job(record.job)
    assert (document["state"], document["error"]["code"]) == ("JOB_STATE_CANCELLED", 4)
    assert ml_v1.job(record.job)["errorMessage"] == record.job.status.error.message


def test_a_study_that_runs_too_long_is_cancelled_though_no_engine_knows_it(make_world):
    world: World = make_world(script=runs())
    controller = world.controller()
    study = add_study(world.store, running_s_max=3600.0)
    assert world.store.apply_study(step_of(world.store, study.uid, state=JobState.RUNNING))
    go(controller)
    assert world.state(study.uid) is JobState.RUNNING
    pass_time(world, controller, 3601)
    assert world.state(study.uid) is JobState.CANCELLING
    assert world.error(study.uid).code == 4


def test_the_time_of_all_attempts_counts_and_waiting_between_them_does_not(make_world):
    world: World = make_world(nodes(1), script=runs())
    controller = world.controller()
    uid = world.submit(scheduling=HOUR)
    go(controller)
    pass_time(world, controller, 2000)
    world.maintain("node-0", 0.0)
    go(controller, 3)
    pass_time(world, controller, 100_000)
    assert world.state(uid) is JobState.QUEUED
    world.resume("node-0")
    world.clock.s += 2
    go(controller, 2)
    pass_time(world, controller, 1500)
    assert world.state(uid) is JobState.RUNNING
    pass_time(world, controller, 101)
    assert world.state(uid) is JobState.CANCELLED
    assert world.error(uid).code == 4


def test_a_job_that_waits_too_long_is_cancelled_at_once(make_world):
    world: World = make_world(nodes(0))
    controller = world.controller()
    waits, endless = world.submit(scheduling=Scheduling(waiting_s_max=1800.0)), world.submit()
    pass_time(world, controller, 1799)
    assert world.states([waits, endless]) == {JobState.QUEUED}
    pass_time(world, controller, 2)
    assert (world.state(waits), world.state(endless)) == (JobState.CANCELLED, JobState.QUEUED)
    assert world.error(waits).code == 4
    assert "1800 s of scheduling.maxWaitDuration" in world.error(waits).message
    assert world.job(waits).job.status.end_time > START


def test_what_prepares_for_too_long_has_not_run_yet(make_world):
    world: World = make_world(script=runs(ready_s=10_000.0))
    controller = world.controller()
    uid = world.submit(scheduling=Scheduling(waiting_s_max=1800.0))
    go(controller)
    assert world.state(uid) is JobState.PREPARING
    pass_time(world, controller, 1801)
    assert world.state(uid) is JobState.CANCELLED
    assert world.error(uid).code == 4


def test_once_a_job_has_run_it_is_never_ended_for_waiting(make_world):
    world: World = make_world(nodes(1), script=runs())
    controller = world.controller()
    uid = world.submit(scheduling=Scheduling(waiting_s_max=1800.0))
    go(controller)
    world.maintain("node-0", 0.0)
    go(controller, 3)
    assert world.state(uid) is JobState.QUEUED
    pass_time(world, controller, 9000)
    assert world.state(uid) is JobState.QUEUED


def test_a_users_cancel_is_not_taken_for_a_timeout_nor_the_other_way_round(make_world):
    world: World = make_world(script=runs(notice_s=None))
    controller = world.controller()
    cancelled, late = world.submit(scheduling=HOUR), world.submit(scheduling=HOUR)
    go(controller)
    world.clock.s += 3601
    world.cancel(cancelled)
    controller.lease_once()
    controller.deadlines_once()
    assert not world.cancel(late), "it ends already"
    go(controller)
    world.clock.s += 2
    go(controller)
    assert world.states([cancelled, late]) == {JobState.CANCELLED}
    assert (world.error(cancelled).code, world.error(late).code) == (1, 4)


def test_many_are_ended_in_one_pass_and_nobody_but_the_leader_ends_any(make_world):
    world: World = make_world(nodes(0))
    leader, other = world.controller(), world.controller("server-b")
    uids = [world.submit(scheduling=Scheduling(waiting_s_max=10.0)) for _ in range(250)]
    world.clock.s += 11
    other.lease_once()
    assert other.deadlines_once() == (250 if other.leading else 0)
    leader.lease_once()
    leader.deadlines_once()
    assert world.states(uids) == {JobState.CANCELLED}


def test_the_default_limit_is_told_as_such(make_world):
    world: World = make_world(script=runs())
    controller = world.controller()
    uid = world.submit()
    go(controller)
    pass_time(world, controller, 604_801)
    assert world.state(uid) is JobState.CANCELLED
    assert "the server's limit for jobs that do not set" in world.error(uid).message
