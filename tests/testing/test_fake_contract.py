"""The fake engine keeps the contract of engines, so that tests with it are worth something."""

from contextlib import contextmanager

import pytest

from trainshed.model.attempt import Report
from trainshed.model.resources import FleetPolicy, Node
from trainshed.testing.engine_contract import EngineContract, plan_of, program_of
from trainshed.testing.fake_engine import FakeEngine, Script

NODES = (Node(name="n", slots=64, policy=FleetPolicy.EMULATE),)
#: How long a program runs that waits for nobody: tests do not hurry.
RUNS_S = 0.01


def script(_key, plan):
    first = program_of(plan.primary)
    return Script(
        fault="/no/such/program: not found" if first.missing else None,
        runs_s=None if first.waits else RUNS_S,
        exit_code=first.exit_code,
        signal=first.signal or None,
        notice_s=None if first.deaf else 0.0,
        reports=tuple((0.0, Report(tag="loss", value=s, step=s)) for s in range(first.reports)),
    )


class FakeWorld:
    """The engine outlives its servers: it is the world."""

    def __init__(self):
        self._engine, self._other = (FakeEngine(NODES, script=script) for _ in range(2))

    def engine(self):
        return self._engine

    def elsewhere(self):
        return self._other

    def plan(self, _key, *programs):
        return plan_of(*programs, metric_file="/metrics")

    def started(self, key):
        return self._engine.started[key]

    def finish(self, key):
        self._engine.end(key)

    def lose(self, key):
        self._engine.lose(key)

    @contextmanager
    def leftover(self, key):
        self._engine.leftovers.add(key)
        yield
        self._engine.leftovers.discard(key)

    @contextmanager
    def away(self):
        self._engine.unreachable = True
        yield
        self._engine.unreachable = False

    def lines(self, _key):
        return []


class TestFakeEngine(EngineContract):
    @pytest.fixture
    def world(self):
        world = FakeWorld()
        yield world
        assert not world.engine().violations
