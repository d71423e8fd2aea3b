"""The database fails for a moment, anywhere; afterwards the controller goes on as if it had not."""

from contextlib import suppress

import pytest

from controller.world import World, go, nodes, runs
from trainshed.model.status import JobState
from trainshed.store.base import StoreFault
from trainshed.store.holdings import Holdings


class Hiccups:
    """Stands before a store; the n-th call of a method fails, before or after it was done."""

    def __init__(self, real):
        self._real = real
        self._left = {}

    def fail(self, name, *, nth=1, afterwards=False):
        self._left[name] = [nth, afterwards]

    def __getattr__(self, name):
        method = getattr(self._real, name)
        if not callable(method):
            return method

        def call(*args, **kwargs):
            left = self._left.get(name)
            if left is None:
                return method(*args, **kwargs)
            left[0] -= 1
            if left[0]:
                return method(*args, **kwargs)
            del self._left[name]
            if left[1]:
                method(*args, **kwargs)
            raise StoreFault("the database is away")

        return call


@pytest.fixture
def hiccup_world(make_world):
    def make(*args, **more) -> World:
        world = make_world(*args, **more)
        world.store = Hiccups(world.store)
        return world

    return make


def bravely(controller, rounds=1):
    """Every step, as the controller's threads take them: one that fails is taken again later."""
    for _ in range(rounds):
        for step in (controller.schedule_once, controller.perform_once, controller.observe_once):
            with suppress(StoreFault):
                step()


@pytest.mark.parametrize("call", ["active", "commands", "apply", "confirm", "holding_changed"])
@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("afterwards", [False, True], ids=["before", "after"])
def test_no_job_is_forgotten(hiccup_world, call, nth, afterwards):
    """Also a write that was committed and not confirmed is seen for what it is."""
    world = hiccup_world(script=runs(5.0))
    controller = world.controller()
    bravely(controller)  # what is read whole at the start has been read
    uid = world.submit()
    world.store.fail(call, nth=nth, afterwards=afterwards)
    bravely(controller, 6)
    assert world.state(uid) is JobState.RUNNING
    world.clock.s += 6
    controller.lease_once()
    world.store.fail(call, nth=nth, afterwards=afterwards)
    bravely(controller, 6)
    assert world.state(uid) is JobState.SUCCEEDED


def test_a_fleet_that_could_not_be_read_whole_is_not_taken_for_an_empty_one(hiccup_world):
    """Else the places of running jobs are given away a second time."""
    world = hiccup_world(nodes(1, slots=1), script=runs())
    first = world.submit()
    go(world.controller(), 2)
    assert world.state(first) is JobState.RUNNING
    holdings = Holdings(world.store)
    world.store.fail("holding")
    with pytest.raises(StoreFault):
        holdings.refresh()
    assert set(holdings.refresh()) == {first}


def test_jobs_of_a_dead_server_are_seen_though_nobody_said_they_were_taken_over(hiccup_world):
    world = hiccup_world(script=runs(5.0))
    uid = world.submit()
    go(world.controller("server-a"), 2)
    heir = world.controller("server-b")
    bravely(heir)
    world.clock.s += 20
    world.store.fail("take_over", afterwards=True)
    with pytest.raises(StoreFault):
        heir.lease_once()
    heir.lease_once()
    bravely(heir, 3)
    assert world.state(uid) is JobState.SUCCEEDED
