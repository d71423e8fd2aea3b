"""The controller as a server runs it: its threads, real time, and steps that fail."""

import logging
import time
from collections import Counter

import pytest

from controller.world import World, compose, nodes
from trainshed.controller import Controller, Pace
from trainshed.engines.several import Engines
from trainshed.model.job import Scheduling
from trainshed.model.resources import NodeState
from trainshed.model.status import JobState
from trainshed.store.opening import open_store
from trainshed.testing.fake_engine import FakeEngine, Script

PACE = Pace(tick_s=0.05, observe_s=0.02, lease_ttl_s=60.0, fleet_s=0.5, grace_s=1.0)
DEADLINE_S = 120.0


@pytest.fixture(autouse=True)
def _log_is_heard(monkeypatch):
    monkeypatch.setattr(logging.getLogger("trainshed"), "propagate", True)


class RealWorld(World):
    """The same with the clock on the wall."""

    def __init__(self, folder, fleet, *, script=lambda _key, _plan: Script()):
        self.engine = FakeEngine(fleet, script=script)
        self.store = open_store(f"sqlite:///{folder / 'trainshed.db'}")
        self.submitted = 0

    def controller(self, server="server-a", **more):
        return Controller(
            self.store,
            Engines.from_engine(self.engine),
            server=server,
            compose=more.pop("compose", compose),
            pace=more.pop("pace", PACE),
            **more,
        )


@pytest.fixture
def world(tmp_path):
    running = RealWorld(tmp_path, nodes(8))
    yield running
    running.close()


@pytest.fixture
def run(world):
    started = []

    def start(**more):
        controller = world.controller(**more)
        controller.start()
        started.append(controller)
        return controller

    yield start
    for controller in started:
        controller.stop()


def wait_for(what):
    until = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < until, "it has not come"
        time.sleep(0.01)


def test_jobs_run_to_their_end_by_themselves(world, run):
    controller = run()
    uids = []
    for _ in range(100):
        uids.append(world.submit())
        controller.wake()
    wait_for(lambda: world.states(uids) == {JobState.SUCCEEDED})
    assert Counter(world.engine.launches.values()) == {1: 100}


def test_a_step_that_fails_is_taken_again_and_stops_no_other(world, run, caplog):
    observe, failures = world.engine.observe, iter(range(3))

    def failing(keys):
        if next(failures, None) is not None:
            raise OSError("the engine's socket is gone")
        return observe(keys)

    world.engine.observe = failing
    controller = run()
    uid = world.submit()
    controller.wake()
    wait_for(lambda: world.state(uid) is JobState.SUCCEEDED)
    assert "the engine's socket is gone" in caplog.text


def test_one_job_that_nobody_can_judge_does_not_stop_the_others(world, run, caplog):
    poison = world.submit()
    launch = world.engine.launch

    def launch_all_but_one(key, plan, seats):
        if key.uid == poison:
            raise ZeroDivisionError("of this job alone")
        launch(key, plan, seats)

    world.engine.launch = launch_all_but_one
    run()
    healthy = [world.submit() for _ in range(20)]
    wait_for(lambda: world.states(healthy) == {JobState.SUCCEEDED})
    assert world.state(poison) is JobState.PREPARING
    assert "ENGINE_RETRIED" in world.story(poison)
    assert "of this job alone" in caplog.text


def test_a_stopped_controller_leaves_jobs_and_leases_as_they_should_be(world, run):
    world.engine._script = lambda _key, _plan: Script(runs_s=None)
    uid = world.submit()
    run()
    wait_for(lambda: world.state(uid) is JobState.RUNNING)
    first = run(server="server-b")
    first.stop()
    assert world.state(uid) is JobState.RUNNING
    assert world.store.servers() == ["server-a"]


def test_maintenance_and_deadlines_need_nobody_to_ask(world, run):
    world.engine._script = lambda _key, _plan: Script(runs_s=None)
    stays, ends = world.submit(), world.submit(scheduling=Scheduling(running_s_max=0.5))
    run()
    wait_for(lambda: world.state(stays) is JobState.RUNNING)
    node = world.node(stays)
    world.store.set_node_state("fake", node, NodeState.MAINTENANCE, 0.0)
    wait_for(lambda: world.job(stays).attempt == 2 and world.state(stays) is JobState.RUNNING)
    assert world.node(stays) != node
    wait_for(lambda: world.state(ends) is JobState.CANCELLED)
    assert world.error(ends).code == 4
