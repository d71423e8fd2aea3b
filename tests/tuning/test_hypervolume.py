"""The expected hypervolume improvement: its strips, its value and its slopes."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.tuning.hypervolume import ExpectedHypervolume, front_of, strips_below
from tuning.belief_scores import assert_slopes

COUNT = 2
FLOOR = -10.0


def lists_of_losses(count):
    """Rows of losses; many are equal, or dominate each other."""
    rows = st.lists(st.tuples(*[st.integers(0, 4).map(float)] * count), max_size=7)
    return rows.map(lambda values: np.array(values).reshape(-1, count))


def volume_by_inclusion(front, reference):
    """The dominated volume, by inclusion and exclusion of the boxes of all subsets."""
    total = 0.0
    for size in range(1, len(front) + 1):
        for rows in itertools.combinations(front, size):
            sides = np.maximum(reference - np.max(rows, axis=0), 0.0)
            total -= (-1) ** size * float(np.prod(sides))
    return total


def improvement(seed=1, shift=0.0):
    """The improvement of a random front, which may be far better than the beliefs."""
    rng = np.random.default_rng(seed)
    front = rng.standard_normal((5, COUNT)) - shift
    reference = np.full(COUNT, 1.5)
    edges = strips_below(front[front_of(front)], reference)
    return ExpectedHypervolume(edges=edges), front, reference


@given(st.integers(2, 4).flatmap(lists_of_losses))
def test_a_front_is_what_no_other_point_dominates(losses):
    front = losses[front_of(losses)]
    for row in losses:
        dominating = (losses <= row).all(axis=1) & (losses < row).any(axis=1)
        assert (front == row).all(axis=1).any() == (not dominating.any())
    assert len(np.unique(front, axis=0)) == len(front)


@given(lists_of_losses(COUNT))
def test_strips_and_what_the_front_dominates_fill_the_space(losses):
    reference = np.full(COUNT, 3.0)
    front = losses[front_of(losses)]
    ends, tops = strips_below(front, reference)
    widths = np.diff(ends, prepend=FLOOR)
    assert (widths > 0).all()
    free = float(np.sum(widths * (tops - FLOOR)))
    dominated = volume_by_inclusion(front, reference)
    assert free + dominated == pytest.approx(float(np.prod(reference - FLOOR)))


def test_strips_grow_with_the_front_and_not_with_its_square():
    rng = np.random.default_rng(3)
    front = np.abs(rng.standard_normal((60, COUNT)))
    front /= np.linalg.norm(front, axis=1)[:, None]
    assert strips_below(front, np.full(COUNT, 2.0)).shape[1] <= 60 + 1


def test_the_expectation_is_that_of_many_draws():
    score, front, reference = improvement(shift=-1.0)
    means, deviations = np.array([[0.3, -0.6], [-0.2, 0.4]]), np.array([[0.8, 0.5], [0.4, 1.2]])
    rng = np.random.default_rng(2)
    own = front[front_of(front)]
    before = volume_by_inclusion(own, reference)
    log_values = score.score(means, deviations)
    for mean, deviation, log_value in zip(means.T, deviations.T, log_values, strict=True):
        draws = rng.normal(mean, deviation, (1500, COUNT))
        gains = [volume_by_inclusion([*own, draw], reference) - before for draw in draws]
        error = 5 * np.std(gains) / math.sqrt(len(gains))
        assert math.exp(log_value) == pytest.approx(np.mean(gains), abs=error)


@pytest.mark.parametrize("shift", [0.0, 30.0])
def test_slopes_are_those_of_the_score(shift):
    score, _, _ = improvement(shift=shift)
    assert_slopes(score, np.array([0.3, -0.6]), np.array([0.8, 0.5]))


def test_narrow_strips_have_the_right_slopes():
    front = np.column_stack([np.linspace(0, 1e-6, 9), np.linspace(1e-6, 0, 9)])
    score = ExpectedHypervolume(edges=strips_below(front, np.full(COUNT, 1.5)))
    assert_slopes(score, np.array([0.3, 0.2]), np.array([0.8, 0.5]))


def test_a_hopeless_point_still_has_a_finite_slope():
    score, _, _ = improvement(shift=1e6)
    value, *slopes = score.slopes(np.full((COUNT, 1), 0.3), np.full((COUNT, 1), 0.5))
    assert np.isfinite(value).all()
    assert np.isfinite(slopes).all()
    assert np.abs(slopes).max() > 0


def test_without_a_front_everything_below_the_reference_counts():
    strips = strips_below(np.empty((0, COUNT)), np.ones(COUNT))
    assert strips.tolist() == [[1.0], [1.0]]
