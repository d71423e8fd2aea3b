"""The unit cube that the Gaussian process is shown: the same points, there and back."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainshed.model.study import Noise
from trainshed.model.trials import TrialState
from trainshed.tuning import gaussian
from trainshed.tuning.gaussian import Surrogate
from trainshed.tuning.history import history_of
from trainshed.tuning.random_search import random_point
from trainshed.tuning.space import space_of
from tuning.spaces import double, integer, luck, studies, study, trial, when, words


def propose_from(spec, trials, answer=None):
    """What the process is asked, and the point that its answer is read as."""
    space, asking = space_of(spec), {}

    def propose(points, values, pending, **options):
        asking.update(options, points=points, values=values, pending=pending)
        return points[0] if answer is None else answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gaussian, "propose", propose)
        history = history_of(spec, space, trials, ())
        return asking, Surrogate(space, 1, Noise.HIGH).point(history)


@settings(deadline=None)
@given(studies(), st.integers(0, 2**32))
def test_every_point_comes_back_from_its_coordinates(spec, seed):
    point = random_point(space_of(spec), luck(seed))
    asking, answered = propose_from(spec, [trial(1, point, 0.5)])
    assert [name for name, _ in answered] == [name for name, _ in point]
    for (_, back), (_, value) in zip(answered, point, strict=True):
        assert back == (pytest.approx(value, abs=1e-3) if isinstance(value, float) else value)
    for axis, coordinate in zip(asking["axes"], asking["points"][0], strict=True):
        parent = None if axis.parent is None else asking["points"][0][axis.parent]
        is_active = parent is None or parent in axis.parent_positions
        assert is_active == (not math.isnan(coordinate))
        assert math.isnan(coordinate) or 0 <= coordinate <= 1
        assert not axis.positions or math.isnan(coordinate) or coordinate in axis.positions
        assert list(axis.positions) == sorted(set(axis.positions))


def test_results_failures_and_running_trials_are_told_apart():
    spec = study(words("a", "b", conditions=(when(double("x"), "b"),)), integer("n", 1.0, 4.0))
    trials = [
        trial(1, (("opt", "a"), ("n", 2)), 0.5),
        trial(2, (("opt", "a"), ("n", 3)), state=TrialState.INFEASIBLE),
        trial(3, (("opt", "b"), ("x", 0.25), ("n", 4))),
    ]
    asking, _ = propose_from(spec, trials)
    assert asking["values"] == [0.5, pytest.approx(math.nan, nan_ok=True)]
    assert tuple(asking["points"][0]) == (0.25, pytest.approx(math.nan, nan_ok=True), 0.375)
    assert [tuple(row) for row in asking["pending"]] == [(0.75, 0.25, 0.875)]
    assert [axis.is_category for axis in asking["axes"]] == [True, False, False]
    assert asking["noise"] is Noise.HIGH


def test_a_wide_integer_is_like_a_range_and_cannot_be_a_parent():
    wide = integer("n", 1.0, 1e6)
    asking, answered = propose_from(study(wide), [trial(1, (("n", 1),), 0.5)], (0.5,))
    assert asking["axes"][0].positions == ()
    assert answered == (("n", 500001),)
    parent = integer("n", 1.0, 1e6, conditions=(when(double("x"), 7.0),))
    assert Surrogate(space_of(study(wide)), 1, Noise.DEFAULT).is_able
    assert not Surrogate(space_of(study(parent)), 1, Noise.DEFAULT).is_able


def test_filling_leaves_no_large_hole():
    space = space_of(study(double("x")))
    positions = []
    for number in range(1, 33):
        history = history_of(study(double("x")), space, [trial(number, (("x", 0.5),))], ())
        positions.append(Surrogate(space, 9, Noise.DEFAULT).filling(history)[0][1])
    ordered = [0.0, *sorted(positions), 1.0]
    assert max(other - one for one, other in pairwise(ordered)) < 0.1
