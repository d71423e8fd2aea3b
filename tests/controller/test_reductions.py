"""A job whose workers report their exchanges has that in its story, beside what was predicted."""

import pytest

from controller.world import World, go, runs
from planning.test_achieved import REPORT
from trainshed.model.reduction_report import ACHIEVED, PLANNED
from trainshed.model.status import JobState
from trainshed.store.records.steps import NewEvent

SUMMARY = (
    "Reduction: 1.43 times a ring of the same links; predicted 1.50 (4 reducers, 812 rounds, 52 GB)"
)


def achieved(world, uid):
    return [event for event in world.store.events(uid) if event.kind == ACHIEVED]


def test_what_was_achieved_is_told_once_and_before_the_end(make_world):
    world: World = make_world(script=runs(0.0, reduction=REPORT))
    uid = world.submit(replicas=4)
    go(world.controller(), 2)
    (event,) = achieved(world, uid)
    assert event.message == f"{SUMMARY}."
    assert (event.data["gain"], event.data["predicted"], event.data["planned"]) == (
        1.431,
        1.5,
        None,
    )
    assert world.story(uid)[-2:] == [ACHIEVED, "SUCCEEDED"]


def test_it_stands_beside_what_was_predicted_at_submit(make_world):
    world: World = make_world(script=runs(0.0, reduction=REPORT))
    uid = world.submit(replicas=4)
    world.store.add_event(uid, NewEvent(kind=PLANNED, message="", data={"gain": 1.31}))
    go(world.controller(), 2)
    (event,) = achieved(world, uid)
    assert event.message == f"{SUMMARY}; predicted for the catalog's machines: 1.31."
    assert event.data["planned"] == 1.31


def test_a_job_without_a_report_says_nothing(make_world):
    world: World = make_world(script=runs(0.0))
    uid = world.submit()
    go(world.controller(), 2)
    assert world.state(uid) is JobState.SUCCEEDED
    assert achieved(world, uid) == []


@pytest.mark.parametrize("exit_code", [3, 143])
def test_a_failed_attempt_tells_it_as_well(make_world, exit_code):
    world: World = make_world(script=runs(0.0, exit_code=exit_code, reduction=REPORT))
    uid = world.submit(replicas=4)
    controller = world.controller()
    go(controller, 2)
    events = achieved(world, uid)
    assert events
    assert len({event.attempt for event in events}) == len(events)


def test_a_lost_attempt_and_a_cancelled_one_tell_it_too(make_world):
    world: World = make_world(script=runs(None, reduction=REPORT))
    controller = world.controller()
    lost, cancelled = world.submit(replicas=2), world.submit(replicas=2)
    go(controller, 2)
    world.engine.lose(world.key(lost))
    world.cancel(cancelled)
    go(controller, 3)
    assert [event.attempt for event in achieved(world, lost)] == [1]
    assert world.state(cancelled) is JobState.CANCELLED
    assert len(achieved(world, cancelled)) == 1
