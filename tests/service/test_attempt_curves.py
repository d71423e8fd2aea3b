"""Curves in memory: what was read once is not read again, and is what a whole reading returns."""

from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainshed.model.attempt import AttemptKey
from trainshed.model.usage import GpuUsage, ReplicaUsage, Spread, UsageLine
from trainshed.service.figures import attempt_curves
from trainshed.service.figures.attempt_curves import AttemptCurveCache, AttemptCurves

KEY = AttemptKey(1, 1)


class Engine:
    """An attempt's lines, and how often all of them were read."""

    def __init__(self, *lines):
        self.lines = list(lines)
        self.reads = 0

    def read_usage(self, _key):
        self.reads += 1
        return self.lines

    def read_newest_usage(self, _key):
        return self.lines[-16:]


def line(at, value=None):
    value = float(at) if value is None else value
    spread = Spread(value, value, value)
    replica = ReplicaUsage(cpu=spread, step=(at, at), values={"loss": spread})
    return UsageLine(float(at), 1.0, {"a": replica}, {"GPU-1": GpuUsage(use=spread)})


def drawn(curves):
    usage = {key: curve.points(2000) for key, curve in curves.usage.items()}
    return usage | {key: curve.points(2000) for key, curve in curves.values.items()}


def whole(lines):
    curves = AttemptCurves()
    curves.follow(Engine(*lines), KEY)
    return drawn(curves)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_calls_in_between_do_not_change_the_curves(counts):
    cache, engine, at = AttemptCurveCache(), Engine(), 0
    for count in counts:
        engine.lines += [line(at + number) for number in range(count)]
        at += count
        with cache.open(engine, KEY) as curves:
            assert drawn(curves) == whole(engine.lines)


def test_new_lines_are_added_without_reading_the_others():
    cache, engine = AttemptCurveCache(), Engine(*map(line, range(100)))
    for at in range(100, 105):
        with cache.open(engine, KEY) as curves:
            assert len(curves.values["loss", "a"]) == at
        engine.lines.append(line(at))
    assert engine.reads == 1


@pytest.mark.parametrize(
    "lines",
    [
        [line(at, 7.0) for at in range(50, 60)],  # the clock was set back
        [line(at) for at in range(130)],  # more lines than the newest ones
        [],  # the log was removed
    ],
)
def test_other_lines_are_read_again(lines):
    cache, engine = AttemptCurveCache(), Engine(*map(line, range(100)))
    with cache.open(engine, KEY):
        pass
    engine.lines = lines
    with cache.open(engine, KEY) as curves:
        assert drawn(curves) == whole(lines)
    assert engine.reads == 2


def test_the_points_in_memory_have_limits(monkeypatch):
    monkeypatch.setattr(attempt_curves, "KEPT_POINTS_MAX", 60)
    monkeypatch.setattr(attempt_curves, "CACHED_POINTS_MAX", 120)
    cache, engine = AttemptCurveCache(), Engine(*map(line, range(200)))
    for number in (1, 2, 3, 2):
        with cache.open(engine, AttemptKey(1, number)) as curves:
            assert 0 < curves.point_count <= 60
            assert curves.usage["cpu", "a", ""].points(2000)[-1][4] == 199
    assert engine.reads == 4 - 1, "attempt 2 was in memory, and 1 was not"


def test_names_of_values_have_a_limit(monkeypatch):
    monkeypatch.setattr(attempt_curves, "VALUES_MAX", 3)
    spread = Spread(1, 1, 1)
    usage = [ReplicaUsage(values={f"name-{n}": spread}) for n in range(9)]
    lines = [UsageLine(float(n), 1.0, {"a": one}) for n, one in enumerate(usage)]
    cache, engine = AttemptCurveCache(), Engine(*lines[:2])
    with cache.open(engine, KEY):
        engine.lines += lines[2:]
    with cache.open(engine, KEY) as curves:
        assert [name for name, _ in curves.values] == ["name-0", "name-1", "name-2"]


def test_an_attempt_that_cannot_be_read_can_be_read_later():
    cache, engine = AttemptCurveCache(), Engine(line(1))
    with pytest.raises(KeyError), cache.open(engine, KEY):
        raise KeyError
    with cache.open(engine, KEY) as curves:
        assert len(curves.values) == 1


def test_a_reading_that_fails_loses_no_curves(monkeypatch):
    cache, engine = AttemptCurveCache(), Engine(*map(line, range(130)))
    with cache.open(engine, KEY):
        engine.lines = [line(at) for at in range(150, 250)]
    with monkeypatch.context() as patch:
        patch.setattr(engine, "read_usage", Mock(side_effect=OSError("away")))
        with pytest.raises(OSError, match="away"), cache.open(engine, KEY):
            pass
    engine.lines = [line(at) for at in range(135)]
    with cache.open(engine, KEY) as curves:
        assert drawn(curves) == whole(engine.lines)
