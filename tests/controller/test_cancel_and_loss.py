"""Cancelling in every state, attempts that are lost, engines that do not answer."""

from controller.world import World, go, nodes, runs
from trainshed.model.job import Scheduling
from trainshed.model.restarts import Budgets
from trainshed.model.status import JobState
from trainshed.store.decisions import cancel_step

INFRA_MAX = Budgets().infra


def test_a_waiting_job_is_cancelled_at_once(make_world):
    world: World = make_world(nodes(0))
    uid = world.submit()
    assert world.cancel(uid)
    status = world.job(uid).job.status
    assert (status.state, status.error.code) == (JobState.CANCELLED, 1)
    assert status.end_time is not None
    go(world.controller())
    assert world.engine.launches.total() == 0


def test_a_job_cancelled_before_its_launch_is_never_launched(make_world):
    world: World = make_world(script=runs())
    controller = world.controller()
    uid = world.submit()
    controller.schedule_once()
    world.cancel(uid)
    assert world.state(uid) is JobState.CANCELLING
    go(controller)
    assert world.state(uid) is JobState.CANCELLED
    assert world.engine.launches.total() == 0


def test_a_running_job_is_cancelled_when_nothing_of_it_lives(make_world):
    world: World = make_world(script=runs())
    controller = world.controller()
    uid = world.submit(replicas=2)
    go(controller)
    world.cancel(uid)
    controller.observe_once()
    assert world.state(uid) is JobState.CANCELLING
    go(controller)
    assert world.state(uid) is JobState.CANCELLED
    assert world.error(uid).code == 1
    assert not world.engine.running
    assert {row.state for row in world.store.replicas(uid)} == {"STOPPED"}
    assert world.story(uid)[-1] == "CANCELLED"


def test_a_job_that_ends_while_it_is_cancelled_is_cancelled(make_world):
    world: World = make_world(script=runs())
    controller = world.controller()
    uid = world.submit()
    go(controller)
    world.cancel(uid)
    world.engine.end(world.key(uid))
    controller.observe_once()
    go(controller)
    assert world.state(uid) is JobState.CANCELLED


def test_cancelling_again_or_after_the_end_is_nothing_to_do(make_world):
    world: World = make_world(script=runs())
    controller = world.controller()
    uid, over = world.submit(), world.submit()
    go(controller)
    world.engine.end(world.key(over))
    go(controller)
    world.cancel(uid)
    assert cancel_step(world.job(uid)) is None
    assert cancel_step(world.job(over)) is None
    assert world.state(over) is JobState.SUCCEEDED


def test_a_lost_attempt_is_started_again_and_given_up_when_the_budget_is_used(make_world):
    world: World = make_world(script=runs())
    controller = world.controller()
    uid = world.submit()
    for attempt in range(1, INFRA_MAX + 2):
        go(controller, 2)
        assert world.state(uid) is JobState.RUNNING
        assert world.job(uid).attempt == attempt
        start = world.job(uid).job.status.start_time
        world.engine.lose(world.key(uid))
        controller.observe_once()
    assert world.state(uid) is JobState.FAILED
    assert world.error(uid).code == 14
    assert "Attempt 4 was lost (the machine was lost)" in world.error(uid).message
    assert world.job(uid).job.status.start_time == start
    assert world.story(uid).count("RESTARTING") == INFRA_MAX
    assert all(count == 1 for count in world.engine.launches.values())


def test_a_job_that_wants_no_retries_fails_with_its_first_loss(make_world):
    world: World = make_world(script=runs())
    controller = world.controller()
    uid = world.submit(scheduling=Scheduling(disable_retries=True))
    go(controller)
    world.engine.lose(world.key(uid))
    go(controller)
    assert world.state(uid) is JobState.FAILED


def test_a_job_cancelled_while_it_waits_for_a_restart_is_cancelled(make_world):
    world: World = make_world(script=runs())
    controller = world.controller()
    uid = world.submit()
    go(controller)
    world.engine.lose(world.key(uid))
    controller.observe_once()
    assert world.state(uid) is JobState.QUEUED
    world.cancel(uid)
    go(controller, 2)
    assert world.state(uid) is JobState.CANCELLED
    assert len(world.engine.launches) == 1


def test_unreachable_is_not_failed(make_world):
    """Elsewhere a job was relaunched 24 times because its status could not be fetched."""
    world: World = make_world(script=runs())
    controller = world.controller()
    uid = world.submit()
    go(controller)
    before = world.job(uid).version
    world.engine.unreachable = True
    for _ in range(1000):
        world.clock.s += 1
        controller.observe_once()
    assert world.job(uid).version == before
    assert controller.unattended_attempts == 1
    world.engine.unreachable = False
    controller.lease_once()
    controller.observe_once()
    assert controller.unattended_attempts == 0
    world.engine.end(world.key(uid))
    go(controller)
    assert world.state(uid) is JobState.SUCCEEDED
    assert world.engine.launches.total() == 1


def test_an_unattended_attempt_that_is_cancelled_is_unattended_until_its_end(make_world):
    world: World = make_world(script=runs())
    controller = world.controller()
    uid = world.submit()
    go(controller)
    world.engine.unreachable = True
    controller.observe_once()
    world.cancel(uid)
    go(controller, 2)
    assert world.state(uid) is JobState.CANCELLING
    assert controller.unattended_attempts == 1
    world.engine.unreachable = False
    world.clock.s += 60
    go(controller, 3)
    assert world.state(uid) is JobState.CANCELLED
    assert controller.unattended_attempts == 0


def test_an_engine_that_takes_no_commands_is_asked_again(make_world):
    world: World = make_world(script=runs())
    controller = world.controller()
    uid = world.submit()
    world.engine.unreachable = True
    go(controller, 3)
    assert world.state(uid) is JobState.PREPARING
    assert world.story(uid).count("ENGINE_RETRIED") == 1
    assert controller.unattended_attempts == 0, "it was never launched"
    world.engine.unreachable = False
    world.clock.s += 5
    go(controller)
    assert world.state(uid) is JobState.RUNNING


def test_labels_that_change_while_a_job_runs_do_not_hide_its_end(make_world):
    world: World = make_world(script=runs())
    controller = world.controller()
    uid = world.submit()
    go(controller)
    world.store.set_labels(uid, {"team": "vision"}, None)
    world.engine.end(world.key(uid))
    for _ in range(2):
        controller.observe_once()
    assert world.state(uid) is JobState.SUCCEEDED


def test_a_server_whose_lease_has_ended_writes_nothing_before_it_has_one_again(make_world):
    world: World = make_world(script=runs())
    controller = world.controller()
    uid = world.submit()
    go(controller)
    world.clock.s += 30
    world.engine.end(world.key(uid))
    controller.observe_once()
    assert world.state(uid) is JobState.RUNNING
    go(controller)
    assert world.state(uid) is JobState.SUCCEEDED
