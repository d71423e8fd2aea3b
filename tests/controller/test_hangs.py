"""A replica without progress is reported, once, with its stacks; restarted only where wished."""

import pytest

from controller.world import World, go, nodes, runs
from trainshed.model.attempt import Hang
from trainshed.model.job import Scheduling
from trainshed.model.restarts import Budgets, Restarts
from trainshed.model.status import JobState
from trainshed.model.stopping import StopReason

STACKS = 'File "train.py", line 7, in all_reduce'
HANG = Hang(task_name="workerpool1-0", seconds=1800.4, stacks=STACKS)


@pytest.fixture
def hung(make_world):
    def make(scheduling=None, **more):
        world: World = make_world(nodes(2), script=runs())
        controller = world.controller(**more)
        uid = world.submit(replicas=2, scheduling=scheduling)
        go(controller, 2)
        world.engine.hang(world.key(uid), HANG)
        go(controller, 3)
        return world, controller, uid

    return make


def events_of(world, uid, kind):
    return [event for event in world.store.events(uid) if event.kind == kind]


def test_a_hang_is_told_once_and_nothing_else_is_done(hung):
    world, _, uid = hung()
    [event] = events_of(world, uid, "HUNG")
    assert event.message == "Replica workerpool1-0 has shown no progress for 1800 s."
    assert event.data["stacks"] == STACKS
    assert event.data["severity"] == "WARNING"
    assert world.state(uid) is JobState.RUNNING
    assert not world.engine.stops


def test_another_replica_that_hangs_is_told_too(hung):
    world, controller, uid = hung()
    world.engine.hang(world.key(uid), HANG, Hang(task_name="workerpool0-0", seconds=60.0))
    go(controller, 2)
    assert [event.data["task_name"] for event in events_of(world, uid, "HUNG")] == [
        "workerpool1-0",
        "workerpool0-0",
    ]


def test_it_is_told_when_the_replica_goes_on(hung):
    world, controller, uid = hung()
    world.engine.hang(world.key(uid))
    go(controller, 2)
    [event] = events_of(world, uid, "RECOVERED")
    assert event.message == "Replica workerpool1-0 shows progress again."
    world.engine.hang(world.key(uid), HANG)
    go(controller, 2)
    assert len(events_of(world, uid, "HUNG")) == 1, "once for each replica of an attempt"


def test_a_server_that_was_killed_does_not_tell_it_again(hung):
    world, _, uid = hung()
    go(world.controller(), 3)
    assert len(events_of(world, uid, "HUNG")) == 1


def test_where_it_is_wished_the_job_starts_again(hung):
    world, controller, uid = hung(hang_restart=True)
    go(controller)
    record = world.job(uid)
    assert (world.state(uid), record.attempt) == (JobState.RUNNING, 2)
    assert record.restarts == Restarts(infra=1)
    first = next(key for key in world.engine.orders if key.attempt == 1)
    assert world.engine.orders[first][0].reason is StopReason.HANG
    assert "workerpool1-0 has shown no progress" in world.engine.orders[first][0].message
    assert len(events_of(world, uid, "RESTART_ORDERED")) == 1


@pytest.mark.parametrize(
    ("scheduling", "budgets"),
    [(Scheduling(disable_retries=True), Budgets()), (Scheduling(), Budgets(infra=0))],
)
def test_without_a_budget_it_is_only_reported(hung, scheduling, budgets):
    world, controller, uid = hung(scheduling, hang_restart=True, budgets=budgets)
    go(controller, 2)
    assert (world.state(uid), world.job(uid).attempt) == (JobState.RUNNING, 1)
    assert len(events_of(world, uid, "HUNG")) == 1
    assert not world.engine.stops
