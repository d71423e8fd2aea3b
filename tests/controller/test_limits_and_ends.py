"""A limit and an end that meet: what a job has done while nobody looked is not taken from it."""

import pytest

from controller.world import World, go, runs
from trainshed.model.job import Scheduling
from trainshed.model.restarts import Budgets
from trainshed.model.status import JobState

HOUR = Scheduling(running_s_max=3600.0)
SOON = Scheduling(waiting_s_max=1800.0)


def after_a_gap(world, controller, seconds=100_000.0):
    """No server lives for so long; then one comes back, and limits are looked at first."""
    world.clock.s += seconds
    controller = world.controller()
    controller.deadlines_once()
    go(controller, 3)
    return controller


@pytest.mark.parametrize(("exit_code", "state"), [(0, JobState.SUCCEEDED), (3, JobState.FAILED)])
def test_a_job_that_ended_while_no_server_lived_has_not_run_too_long(make_world, exit_code, state):
    world: World = make_world(script=runs(600.0, exit_code=exit_code))
    controller = world.controller()
    uid = world.submit(scheduling=HOUR)
    go(controller)
    assert world.state(uid) is JobState.RUNNING
    after_a_gap(world, controller)
    assert world.state(uid) is state
    assert "TIMEOUT" not in world.story(uid)


def test_a_job_that_prepared_and_ended_while_no_server_lived_has_not_waited_too_long(make_world):
    world: World = make_world(script=runs(600.0, ready_s=60.0))
    controller = world.controller()
    uid = world.submit(scheduling=SOON)
    go(controller)
    assert world.state(uid) is JobState.PREPARING
    after_a_gap(world, controller)
    assert world.state(uid) is JobState.SUCCEEDED


def test_a_job_that_still_runs_then_is_ended_at_once(make_world):
    world: World = make_world(script=runs())
    controller = world.controller()
    uid = world.submit(scheduling=HOUR)
    go(controller)
    after_a_gap(world, controller)
    assert world.state(uid) is JobState.CANCELLED
    assert world.error(uid).code == 4


def test_while_nothing_is_known_of_an_attempt_it_is_not_ended_for_its_limit(make_world):
    world: World = make_world(script=runs(600.0))
    controller = world.controller()
    uid = world.submit(scheduling=HOUR)
    go(controller)
    world.engine.unreachable = True
    controller = after_a_gap(world, controller)
    assert world.state(uid) is JobState.RUNNING
    world.engine.unreachable = False
    go(controller, 2)
    assert world.state(uid) is JobState.SUCCEEDED


def test_what_nobody_could_launch_ends_when_it_has_waited_too_long(make_world):
    world: World = make_world(script=runs())
    controller = world.controller()
    uid = world.submit(scheduling=SOON)
    controller.schedule_once()
    world.engine.unreachable = True
    go(controller)
    controller = after_a_gap(world, controller)
    assert world.state(uid) is JobState.CANCELLING
    assert world.error(uid).code == 4
    world.engine.unreachable = False
    world.clock.s += 100.0
    go(controller, 3)
    assert world.state(uid) is JobState.CANCELLED


def test_a_power_cut_does_not_use_up_the_time_of_a_job(make_world):
    world: World = make_world(script=runs())
    controller = world.controller()
    uid = world.submit(scheduling=HOUR)
    go(controller)
    world.engine.lose(world.key(uid), ran_s=1200.0)
    controller = after_a_gap(world, controller)
    assert (world.state(uid), world.job(uid).attempt) == (JobState.RUNNING, 2)
    assert 1200.0 <= world.job(uid).ran_s < 1300.0
    world.clock.s += 2500.0
    go(controller, 2)
    assert world.state(uid) is JobState.CANCELLED


def test_what_ended_long_ago_is_tried_again_with_the_time_that_it_has_left(make_world):
    world: World = make_world(script=runs(600.0, exit_code=137))
    budgets = Budgets(user=1)
    controller = world.controller(budgets=budgets)
    uid = world.submit(scheduling=HOUR)
    go(controller)
    world.clock.s += 100_000.0
    controller = world.controller(budgets=budgets)
    go(controller, 2)
    assert (world.state(uid), world.job(uid).attempt) == (JobState.RUNNING, 2)
    assert 600.0 <= world.job(uid).ran_s < 700.0
