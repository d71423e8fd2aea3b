"""Steady steps are told from warm-up, whatever the warm-up looks like."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.step_times import StepTimes, step_times_of
from trainshed.planning.scaling.step_statistics import summarize_steps, summarize_times, warm_up

STEADY = st.lists(st.floats(0.095, 0.105), min_size=30, max_size=200)


@given(steady=STEADY, slow=st.lists(st.floats(0.3, 30), max_size=10))
def test_slow_first_steps_are_warm_up(steady, slow):
    assert warm_up([*slow, *steady]) >= len(slow)


@given(steady=STEADY, levels=st.tuples(st.integers(1, 6), st.integers(1, 6)))
def test_a_warm_up_may_have_several_levels(steady, levels):
    first, second = levels
    assert warm_up([5.0] * first + [0.4] * second + steady) >= first + second


@given(step_s=st.lists(st.floats(1e-6, 1e4), min_size=1, max_size=60))
def test_at_most_half_of_the_steps_are_warm_up(step_s):
    assert 0 <= warm_up(step_s) <= len(step_s) // 2


def test_one_accident_is_no_change():
    chance = random.Random(7)  # noqa: S311
    steps = [chance.uniform(0.09, 0.11) for _ in range(200)]
    steps[120] = 9.0
    statistics = summarize_steps(steps)
    assert statistics is not None
    assert statistics.warm_up < 100
    assert statistics.step_s == pytest.approx(0.1, rel=0.02)


def test_the_uncertainty_falls_with_the_steps():
    steps = [0.09, 0.1, 0.11] * 100
    few, many = summarize_steps(steps[:30]), summarize_steps(steps)
    assert few is not None
    assert many is not None
    assert many.uncertainty < few.uncertainty / 2


def test_waits_count_from_where_the_warm_up_ends():
    statistics = summarize_steps([5.0, 5.0] + [0.1] * 40, [4.9, 4.9] + [0.05] * 40)
    assert statistics is not None
    assert (statistics.warm_up, round(statistics.wait_share, 6)) == (2, 0.5)


def test_long_runs_are_judged_by_their_last_steps():
    statistics = summarize_times(StepTimes(steps=1000, first_s=(1.0,) * 256, recent_s=(0.2,) * 256))
    assert statistics is not None
    assert statistics.step_s == pytest.approx(0.2)


def test_nothing_is_said_of_no_steps():
    assert summarize_times(StepTimes(steps=0)) is None


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"steps": -1},
        {"steps": True},
        {"steps": float("nan")},
        {"first": [[0.1]]},
        {"first": [[0.1, -1]]},
        {"recent": [[0.1, 0.0]] * 257},
        {"model": []},
        {"model": {"parameters": "many"}},
    ],
    ids=json.dumps,
)
def test_what_no_trainer_writes_is_no_report(change):
    document = {"version": 1, "steps": 2, "first": [[0.1, 0.0]], "recent": [[0.1, 0.0]]}
    step_times_of(document)
    with pytest.raises(ValueError, match=r"\w"):
        step_times_of({**document, **change})
