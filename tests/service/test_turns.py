"""Work beside the server's own takes its share of a processor and no more."""

import pytest

from trainshed.service.learning.turns import CpuBudget


class World:
    """Two clocks that a test moves."""

    now = 100.0
    worked = 5.0

    @property
    def turns(self):
        return CpuBudget(share=0.05, clock=lambda: self.now, work_clock=lambda: self.worked)


@pytest.fixture
def world():
    return World()


def test_a_turn_ends_when_its_share_is_used_and_a_rest_follows(world):
    turns = world.turns
    assert not turns.is_resting
    with turns.one() as has_time:
        assert has_time()
        world.worked += 0.09
        assert has_time()
        world.worked += 0.11
        assert not has_time()
    assert turns.is_resting
    world.now += 3.9
    assert turns.is_resting, "0.2 s are a twentieth of 4 s"
    world.now += 0.2
    assert not turns.is_resting


def test_a_turn_that_fails_rests_as_well(world):
    turns = world.turns

    def work():
        with turns.one():
            world.worked += 0.1
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        work()
    assert turns.is_resting


def test_what_had_nothing_to_do_needs_no_rest(world):
    turns = world.turns
    with turns.one():
        pass
    assert not turns.is_resting
