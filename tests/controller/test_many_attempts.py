"""Of many attempts, a pass observes a part, and those of which the engine has news."""

import pytest

from controller.world import World, go, nodes, runs
from trainshed.controller.observe import AT_ONCE
from trainshed.model.status import JobState

JOBS = 3 * AT_ONCE


@pytest.fixture
def script():
    return runs()


@pytest.fixture
def world(tmp_path, script):
    world = World(tmp_path, nodes(JOBS, slots=1), script=script)
    yield world
    world.close()


@pytest.fixture
def observed(world, monkeypatch):
    """The attempts of which the engine was asked since the list was last cleared."""
    keys, observe = [], world.engine.observe

    def note(given):
        keys.extend(given)
        return observe(given)

    monkeypatch.setattr(world.engine, "observe", note)
    return keys


def test_a_pass_observes_a_part_and_several_passes_all(world, observed):
    controller = world.controller()
    uids = [world.submit() for _ in range(JOBS)]
    go(controller, 6)
    assert world.states(uids) == {JobState.RUNNING}
    observed.clear()
    controller.observe_once()
    assert 0 < len(observed) < JOBS
    for _ in range(2):
        controller.observe_once()
    assert {key.uid for key in observed} == set(uids)


def test_an_end_is_noticed_in_the_next_pass(world):
    controller = world.controller()
    uids = [world.submit() for _ in range(JOBS)]
    go(controller, 6)
    for uid in uids:
        world.engine.end(world.key(uid))
    controller.observe_once()
    assert world.states(uids) == {JobState.SUCCEEDED}


@pytest.mark.parametrize("script", [runs(ready_s=5.0)])
def test_attempts_that_start_are_all_observed_in_the_next_pass(world):
    """An engine may report ends alone."""
    controller = world.controller()
    uids = [world.submit() for _ in range(JOBS)]
    go(controller, 6)
    assert world.states(uids) == {JobState.PREPARING}
    world.clock.s += 6.0
    controller.lease_once()
    controller.observe_once()
    assert world.states(uids) == {JobState.RUNNING}
