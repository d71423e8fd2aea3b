"""The expected hypervolume improvement: its boxes, its value and its slopes."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from trainshed.tuning.hypervolume import ExpectedHypervolume, boxes_below, edges_of, front_of
from trainshed.tuning.kernel import Hyperparameters, posterior

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


def beliefs(rng):
    """One process for each objective, after a few random results."""
    groups, x = np.arange(2), rng.random((6, 2))
    hyper = Hyperparameters(lengths=np.array([0.5, 0.8]), scale=1.0, noise=0.01)
    return [posterior(hyper, groups, x, rng.standard_normal(6)) for _ in range(COUNT)]


def acquisition(seed=1, shift=0.0):
    """The improvement of a random front, which may be far better than the beliefs."""
    rng = np.random.default_rng(seed)
    front = rng.standard_normal((5, COUNT)) - shift
    reference = np.full(COUNT, 1.5)
    edges = edges_of(boxes_below(front[front_of(front)], reference))
    return ExpectedHypervolume(posteriors=beliefs(rng), edges=edges), front, reference


@given(st.integers(2, 4).flatmap(lists_of_losses))
def test_a_front_is_what_no_other_point_dominates(losses):
    front = losses[front_of(losses)]
    for row in losses:
        dominating = (losses <= row).all(axis=1) & (losses < row).any(axis=1)
        assert (front == row).all(axis=1).any() == (not dominating.any())
    assert len(np.unique(front, axis=0)) == len(front)


@given(lists_of_losses(COUNT))
def test_boxes_and_what_the_front_dominates_fill_the_space(losses):
    reference = np.full(COUNT, 3.0)
    front = losses[front_of(losses)]
    boxes = boxes_below(front, reference)
    sides = boxes.high - np.maximum(boxes.low, FLOOR)
    assert (sides > 0).all()
    free = float(np.prod(sides, axis=1).sum())
    dominated = volume_by_inclusion(front, reference)
    assert free + dominated == pytest.approx(float(np.prod(reference - FLOOR)))


def test_boxes_grow_with_the_front_and_not_with_its_square():
    rng = np.random.default_rng(3)
    front = np.abs(rng.standard_normal((60, COUNT)))
    front /= np.linalg.norm(front, axis=1)[:, None]
    assert len(boxes_below(front, np.full(COUNT, 2.0)).low) <= 2 * 60 + 1


def test_the_expectation_is_that_of_many_draws():
    score, front, reference = acquisition(shift=-1.0)
    points = np.array([[0.1, 0.2], [0.7, 0.4]])
    rng = np.random.default_rng(2)
    own = front[front_of(front)]
    before = volume_by_inclusion(own, reference)
    for point, log_value in zip(points, score.score(points), strict=True):
        at = [belief.at(point[None]) for belief in score.posteriors]
        draws = np.column_stack([rng.normal(mean[0], dev[0], 1500) for mean, dev in at])
        gains = [volume_by_inclusion([*own, draw], reference) - before for draw in draws]
        error = 5 * np.std(gains) / math.sqrt(len(gains))
        assert math.exp(log_value) == pytest.approx(np.mean(gains), abs=error)


@pytest.mark.parametrize("shift", [0.0, 30.0])
def test_slopes_are_those_of_the_score(shift):
    score, _, _ = acquisition(shift=shift)
    point = np.array([0.35, 0.6])
    value, slope = score.slopes(point[None])
    assert value == pytest.approx(score.score(point[None]))
    estimate = approx_fprime(point, lambda row: score.score(row[None])[0], 1e-7)
    assert slope[0] == pytest.approx(estimate, rel=1e-3, abs=1e-3)


def test_a_hopeless_point_still_has_a_finite_slope():
    score, _, _ = acquisition(shift=1e6)
    value, slope = score.slopes(np.array([[0.35, 0.6]]))
    assert np.isfinite(value).all()
    assert np.isfinite(slope).all()
    assert np.abs(slope).max() > 0


def test_without_a_front_everything_below_the_reference_counts():
    boxes = boxes_below(np.empty((0, COUNT)), np.ones(COUNT))
    assert np.isneginf(boxes.low).all()
    assert (boxes.high == 1.0).all()
