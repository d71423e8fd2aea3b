"""The improvement along a ray: its corners, its value and its slopes."""

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from trainshed.tuning.kernel import Hyperparameters, posterior
from trainshed.tuning.reach import direction, reach_improvement

COUNTS = pytest.mark.parametrize("count", [3, 5])


def acquisition(count, shift=0.0, number=4):
    """The improvement on random losses, which may be far better than the beliefs."""
    rng = np.random.default_rng(1)
    groups, x = np.arange(2), rng.random((6, 2))
    hyper = Hyperparameters(lengths=np.array([0.5, 0.8]), scale=1.0, noise=0.01)
    posteriors = [posterior(hyper, groups, x, rng.standard_normal(6)) for _ in range(count)]
    losses = rng.standard_normal((5, count)) - shift
    reference = losses.max(axis=0) + 0.1
    return reach_improvement(posteriors, losses, reference, number), losses, reference


@COUNTS
def test_directions_are_even(count):
    rows = np.array([direction(number, count) for number in range(60)])
    assert (rows >= 0).all()
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0)
    most = np.bincount(rows.argmax(axis=1), minlength=count)
    assert (np.abs(most * count / 60 - 1.0) < 0.5).all()


@COUNTS
def test_corners_are_beyond_all_trials_and_not_beside_them(count):
    for number in range(20):
        score, losses, reference = acquisition(count, number=number)
        steps = np.diff(score.corners, axis=0)
        assert (steps > 0).all()
        assert (score.corners < reference).all()
        for corner in score.corners:
            assert not (losses < corner).all(axis=1).any()
        near = score.corners[-1] + 0.02 * (score.corners[-1] - score.corners[0])
        assert (losses < near).all(axis=1).any()


@COUNTS
def test_the_expectation_is_that_of_many_draws(count):
    score, _, _ = acquisition(count, shift=-1.0)
    points = np.array([[0.1, 0.2], [0.7, 0.4]])
    rng = np.random.default_rng(2)
    for point, log_value in zip(points, score.score(points), strict=True):
        at = [belief.at(point[None]) for belief in score.posteriors]
        draws = np.column_stack([rng.normal(mean[0], dev[0], 20_000) for mean, dev in at])
        is_better = (draws[:, None, :] < score.corners[None]).all(axis=2)
        gains = is_better @ np.exp(score.log_steps)
        error = 5 * np.std(gains) / math.sqrt(len(gains))
        assert math.exp(log_value) == pytest.approx(np.mean(gains), abs=error)


@COUNTS
@pytest.mark.parametrize("shift", [0.0, 30.0])
def test_slopes_are_those_of_the_score(count, shift):
    score, _, _ = acquisition(count, shift=shift)
    point = np.array([0.35, 0.6])
    value, slope = score.slopes(point[None])
    assert value == pytest.approx(score.score(point[None]))
    estimate = approx_fprime(point, lambda row: score.score(row[None])[0], 1e-7)
    assert slope[0] == pytest.approx(estimate, rel=1e-3, abs=1e-3)


def test_a_hopeless_point_still_has_a_finite_slope():
    score, _, _ = acquisition(3, shift=1e6)
    value, slope = score.slopes(np.array([[0.35, 0.6]]))
    assert np.isfinite(value).all()
    assert np.isfinite(slope).all()
    assert np.abs(slope).max() > 0


def test_equal_losses_have_a_direction_too():
    losses = np.zeros((3, 3))
    score = reach_improvement(acquisition(3)[0].posteriors, losses, np.full(3, 0.5), 1)
    assert np.isfinite(score.score(np.array([[0.5, 0.5]]))).all()
