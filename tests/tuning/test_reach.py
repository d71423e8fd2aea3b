"""The improvement along a ray: its corners, its value and its slopes."""

import math

import numpy as np
import pytest

from trainshed.tuning.reach import direction, reach_improvement
from tuning.belief_scores import assert_slopes

COUNTS = pytest.mark.parametrize("count", [3, 5])


def improvement(count, shift=0.0, number=4):
    """The improvement on random losses, which may be far better than the beliefs."""
    rng = np.random.default_rng(1)
    losses = rng.standard_normal((5, count)) - shift
    reference = losses.max(axis=0) + 0.1
    return reach_improvement(losses, reference, number), losses, reference


def beliefs(count):
    """The means and deviations of two points, by objective and point."""
    rng = np.random.default_rng(2)
    return rng.standard_normal((count, 2)), rng.uniform(0.2, 1.0, (count, 2))


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
        score, losses, reference = improvement(count, number=number)
        steps = np.diff(score.corners, axis=0)
        assert (steps > 0).all()
        assert (score.corners < reference).all()
        for corner in score.corners:
            assert not (losses < corner).all(axis=1).any()
        near = score.corners[-1] + 0.02 * (score.corners[-1] - score.corners[0])
        assert (losses < near).all(axis=1).any()


@COUNTS
def test_the_expectation_is_that_of_many_draws(count):
    score, _, _ = improvement(count, shift=-1.0)
    means, deviations = beliefs(count)
    rng = np.random.default_rng(2)
    log_values = score.score(means, deviations)
    for mean, deviation, log_value in zip(means.T, deviations.T, log_values, strict=True):
        draws = rng.normal(mean, deviation, (20_000, count))
        is_better = (draws[:, None, :] < score.corners[None]).all(axis=2)
        gains = is_better @ np.exp(score.log_steps)
        error = 5 * np.std(gains) / math.sqrt(len(gains))
        assert math.exp(log_value) == pytest.approx(np.mean(gains), abs=error)


@COUNTS
@pytest.mark.parametrize("shift", [0.0, 30.0])
def test_slopes_are_those_of_the_score(count, shift):
    means, deviations = beliefs(count)
    assert_slopes(improvement(count, shift=shift)[0], means[:, 0], deviations[:, 0])


def test_a_hopeless_point_still_has_a_finite_slope():
    value, *slopes = improvement(3, shift=1e6)[0].slopes(*beliefs(3))
    assert np.isfinite(value).all()
    assert np.isfinite(slopes).all()
    assert np.abs(slopes).max() > 0


def test_equal_losses_have_a_direction_too():
    score = reach_improvement(np.zeros((3, 3)), np.full(3, 0.5), 1)
    assert np.isfinite(score.score(*beliefs(3))).all()
