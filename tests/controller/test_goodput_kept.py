"""The goodput of a job is in its events, whichever servers wrote them."""

from dataclasses import replace

import pytest

from controller.world import START, World, go, nodes
from trainshed.model.status import JobState
from trainshed.model.step_times import StepTimes
from trainshed.planning.attempt_steps import steps_made
from trainshed.planning.goodput import gpu_seconds, job_goodput
from trainshed.service.goodput.facts import goodput_facts
from trainshed.testing.fake_engine import Script

BEGIN_S = START.timestamp()
FIRST = StepTimes(
    steps=1200,
    first_at=BEGIN_S + 120,
    last_at=BEGIN_S + 3720,
    first_step=0,
    last_step=1200,
    numbered=1200,
    checkpoint_step=1000,
)
SECOND = StepTimes(
    steps=2340,
    first_at=BEGIN_S + 3840,
    last_at=BEGIN_S + 10860,
    first_step=1000,
    last_step=3340,
    numbered=2340,
)


def script(key, _plan):
    if key.attempt == 1:
        return Script(runs_s=None, steps=FIRST)
    return Script(runs_s=10860 - 3780, steps=SECOND)


def play(world, *, kills):
    """The worked example; with ``kills`` a new server takes over after every round."""
    controller = world.controller()

    def round_at(seconds):
        nonlocal controller
        world.clock.s = max(world.clock.s, seconds)
        for _ in range(2):
            if kills:
                controller = world.controller()
            go(controller)

    uid = world.submit(gpus=8)
    round_at(60)
    world.engine.lose(world.key(uid))
    world.clock.s = 3720
    controller.lease_once()
    controller.observe_once()
    round_at(3780)
    round_at(10860)
    assert world.state(uid) is JobState.SUCCEEDED
    return uid


@pytest.mark.parametrize("kills", [False, True])
def test_the_worked_example_comes_out_of_the_events_of_a_job(make_world, kills):
    world: World = make_world(nodes(gpus=8), script=script)
    uid = play(world, kills=kills)
    facts = goodput_facts(world.store, world.job(uid))
    goodput = job_goodput(facts, 0)
    rounded = {name: round(seconds, 2) for name, seconds in goodput.seconds.items()}
    assert rounded == {
        "wall": 10860,
        "first_wait": 60,
        "other_waits": 60,
        "held": 10740,
        "starting": 120,
        "lost": 600,
        "stalled": 0,
        "saving": 0,
        "stopping": 0,
        "productive": 10020,
    }
    assert round(gpu_seconds(facts, 0).held_s) == 8 * 10740


def test_a_job_ended_when_its_attempt_did_and_not_when_a_server_came_back(make_world):
    """The server was away for a night; its machines cost nothing then."""

    def play_script(_key, _plan):
        steps = replace(FIRST, first_at=BEGIN_S + 60, last_at=BEGIN_S + 600)
        return Script(runs_s=600, steps=steps, ended_s=BEGIN_S + 610)

    world: World = make_world(script=play_script)
    uid = world.submit()
    go(world.controller(), 2)
    world.clock.s = 36_000
    go(world.controller(), 2)
    facts = goodput_facts(world.store, world.job(uid))
    goodput = job_goodput(facts, world.clock.s)
    assert world.state(uid) is JobState.SUCCEEDED
    assert (round(goodput.wall_s), round(goodput.held_s)) == (610, 610)
    assert (round(goodput.starting_s), round(goodput.productive_s)) == (60, 550)


def test_a_living_attempt_has_the_steps_that_its_engine_reads(make_world):
    world: World = make_world(nodes(gpus=8), script=script)
    uid = world.submit()
    world.clock.s = 60
    go(world.controller(), 2)
    silent = job_goodput(goodput_facts(world.store, world.job(uid)), BEGIN_S + 3720)
    assert (silent.ratio, round(silent.at_most, 6)) == (None, 1.0)
    facts = goodput_facts(world.store, world.job(uid), lambda _: steps_made(FIRST))
    goodput = job_goodput(facts, BEGIN_S + 3720)
    assert (round(goodput.starting_s), round(goodput.productive_s)) == (60, 3600)


def test_a_cancelled_job_stops_from_its_cancellation_on(make_world):
    world: World = make_world(script=lambda *_: Script(runs_s=None, notice_s=None, steps=FIRST))
    uid = world.submit()
    controller = world.controller()
    go(controller, 2)
    world.clock.s = 3720
    assert world.cancel(uid)
    go(controller, 1)
    world.clock.s = 3730
    go(controller, 2)
    goodput = job_goodput(goodput_facts(world.store, world.job(uid)), 0)
    assert (round(goodput.stopping_s), round(goodput.lost_s)) == (10, 0)
    assert goodput.ratio == pytest.approx(3600 / 3730, abs=1e-3)
