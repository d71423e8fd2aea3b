"""A job whose primary tells its steps has in its story what they came to."""

from controller.world import World, go, runs
from planning.test_steps_achieved import TIMES, WAITING
from trainshed.model.status import JobState
from trainshed.model.step_times import STEPS


def step_events(world, uid):
    return [event for event in world.store.events(uid) if event.kind == STEPS]


def test_steps_are_told_once_and_before_the_end(make_world):
    world: World = make_world(script=runs(0.0, steps=TIMES))
    uid = world.submit()
    go(world.controller(), 2)
    (event,) = step_events(world, uid)
    assert event.message.startswith("Steps: 40, 50 ms each")
    assert event.data["samples_per_s"] == 640
    assert world.story(uid)[-2:] == [STEPS, "SUCCEEDED"]


def test_a_job_that_waits_for_its_input_is_warned_of(make_world):
    world: World = make_world(script=runs(0.0, steps=WAITING))
    uid = world.submit()
    go(world.controller(), 2)
    (event,) = step_events(world, uid)
    assert event.data["severity"] == "WARNING"


def test_a_job_that_tells_none_says_nothing(make_world):
    world: World = make_world(script=runs(0.0))
    uid = world.submit()
    go(world.controller(), 2)
    assert world.state(uid) is JobState.SUCCEEDED
    assert step_events(world, uid) == []
