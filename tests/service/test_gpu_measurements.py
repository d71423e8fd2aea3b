"""Measurements in memory: an open page does not read the same samples again and again."""

from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace

import pytest

from trainshed.engines.several import Engines
from trainshed.model.attempt import AttemptKey
from trainshed.model.usage import GpuUsage, Spread, UsageLine
from trainshed.planning.goodput import AttemptTimes, JobTimes
from trainshed.service.costs.gpu_measurements import GpuMeasurements
from trainshed.service.upkeep.paced_reads import PacedReads
from trainshed.testing.fake_engine import FakeEngine

UID = 7
BUSY = {"GPU-1": GpuUsage(use=Spread(1, 1, 1))}


class Engine(FakeEngine):
    """An engine that needs ``took_s`` for each reading."""

    def __init__(self, clock):
        super().__init__([])
        self.clock = clock
        self.took_s = 1.0
        self.reads = []

    def read_usage(self, key):
        self.reads.append(key.attempt)
        self.clock.now_s += self.took_s
        return super().read_usage(key)


@pytest.fixture
def world():
    clock = SimpleNamespace(now_s=0.0, store_s=10_000.0)
    store = SimpleNamespace(
        clock_skew_s=lambda: 0.0, now=lambda: datetime.fromtimestamp(clock.store_s, UTC)
    )
    engine = Engine(clock)
    measurements = GpuMeasurements(lambda: clock.now_s)

    def read(*ends_s, gpus=1):
        attempts = [
            AttemptTimes(attempt=number, placed_s=0.0, ended_s=end_s, gpus=gpus)
            for number, end_s in enumerate(ends_s, 1)
        ]
        times = JobTimes(accepted_s=0.0, attempts=tuple(attempts))
        measured = measurements.read(store, Engines.from_engine(engine), UID, times)
        return {
            attempt: sum(round(part.end_s - part.begin_s) for part in gpus["GPU-1"].measurements)
            for attempt, gpus in measured.items()
        }

    return SimpleNamespace(clock=clock, engine=engine, read=read)


def give(world, attempt, *times):
    lines = [UsageLine(float(at), 1.0, {}, BUSY) for at in times]
    world.engine.usage[AttemptKey(UID, attempt)] += lines


def test_readings_take_a_twentieth_of_the_time(world):
    give(world, 1, 1, 2)
    assert world.read(None) == {1: 2}
    give(world, 1, 3)
    world.clock.now_s += 19
    assert world.read(None) == {1: 2}
    world.clock.now_s += 1
    assert world.read(None) == {1: 3}
    assert world.engine.reads == [1, 1]


def test_an_attempt_that_has_ended_is_read_once_more_and_then_remembered(world):
    give(world, 1, 1)
    give(world, 2, 5)
    assert world.read(9_000.0, None) == {1: 1, 2: 1}
    give(world, 2, 6)
    assert world.read(9_000.0, 9_999.0) == {1: 1, 2: 2}
    world.clock.now_s += 600
    world.clock.store_s += 600
    for _ in range(3):
        assert world.read(9_000.0, 9_999.0) == {1: 1, 2: 2}
    assert world.engine.reads == [1, 2, 2, 2], "the last samples may come after the end"


def test_an_engine_that_was_away_is_asked_again(world, monkeypatch):
    give(world, 1, 1)
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "read_usage", lambda *_: (_ for _ in ()).throw(OSError("away")))
        assert world.read(9_000.0) == {}
    assert world.read(9_000.0) == {1: 1}


def test_a_job_without_gpus_reads_nothing(world):
    assert world.read(None, gpus=0) == {}
    assert not world.engine.reads


def test_readings_in_memory_have_a_limit():
    reads = PacedReads[str, str](5, len, lambda: 0.0)
    names = [reads.get(key, partial(str, value), 60.0) for key, value in ("aA", "bB", "cC")]
    assert names == ["A", "B", "C"]
    assert reads.get("a", lambda: "ZZZ", 60.0) == "A"
    assert reads.get("d", lambda: "DDD", 60.0) == "DDD"
    assert [reads.get(key, lambda: "new") for key in "dab"] == ["DDD", "A", "new"]
