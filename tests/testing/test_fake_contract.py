"""The fake engine keeps the contract of engines, so that tests with it are worth something."""

from contextlib import contextmanager
from signal import SIGKILL

import pytest

from trainshed.engines.base import PlacedBy
from trainshed.model.attempt import Loss, Report
from trainshed.model.resources import FleetPolicy, Node
from trainshed.testing.engine_contract import EngineContract
from trainshed.testing.engine_world import plan_of, program_of
from trainshed.testing.fake_engine import FakeEngine, Script

NODES = (Node(name="n", slots=64, policy=FleetPolicy.EMULATE),)
#: How long a program runs that waits for nobody: tests do not hurry.
RUNS_S = 0.01


def script(_key, plan):
    first = program_of(plan.primary)
    absent = [replica.task_name for replica in plan.replicas if program_of(replica).missing]
    return Script(
        fault=f"{absent[0]}: /no/such/program: not found" if absent else None,
        runs_s=None if first.waits else RUNS_S,
        exit_code=first.exit_code,
        signal=SIGKILL if first.oom else first.signal or None,
        oom=first.oom,
        message="out of memory at its limit" if first.oom else "",
        notice_s=None if first.deaf else 0.0,
        reports=tuple((0.0, Report(tag="loss", value=s, step=s)) for s in range(first.reports)),
    )


class FakeWorld:
    places = PlacedBy.SERVER
    """The engine outlives its servers: it is the world."""

    limits_memory = True

    def __init__(self):
        self._engine, self._other = (
            FakeEngine(NODES, script=script, places=self.places) for _ in range(2)
        )

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

    @contextmanager
    def busy(self):
        self._engine.is_busy = True
        yield
        self._engine.is_busy = False

    @contextmanager
    def empty(self):
        self._engine.is_empty = True
        yield
        self._engine.is_empty = False

    def evict(self, key):
        self._engine.lose(key, loss=Loss.MAINTENANCE)

    def lines(self, _key):
        return []


class FakeQueueWorld(FakeWorld):
    places = PlacedBy.ENGINE


class TestFakeEngine(EngineContract):
    kind = FakeWorld

    @pytest.fixture
    def world(self):
        world = self.kind()
        yield world
        assert not world.engine().violations


class TestFakeEngineWithAQueue(TestFakeEngine):
    kind = FakeQueueWorld
