"""The probability of meeting limits: its scale, its value and its slopes."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.stats import norm

from trainshed.tuning.feasibility import LimitScore, ScoreSum, scale_limit, total_violation
from trainshed.tuning.improvement import ExpectedImprovement
from trainshed.tuning.kernel import Hyperparameters, posterior

EXCESSES = st.lists(
    st.floats(allow_nan=False, allow_infinity=False) | st.just(math.nan), min_size=1, max_size=30
)


def belief(seed=0):
    rng = np.random.default_rng(seed)
    hyper = Hyperparameters(lengths=np.array([0.5, 0.8]), scale=1.0, noise=0.01)
    return posterior(hyper, np.arange(2), rng.random((6, 2)), rng.standard_normal(6))


@example([1e300, -1e300])
@example([5e-324, -5e-324])
@given(EXCESSES)
def test_scaled_excesses_keep_their_side_of_the_limit(excesses):
    scaled = scale_limit(np.array(excesses))
    assert np.isfinite(scaled.values).all()
    assert math.isfinite(scaled.border)
    for value, excess in zip(scaled.values, excesses, strict=True):
        if excess > 0:
            assert value >= scaled.border
        elif excess <= 0:
            assert value <= scaled.border


@given(EXCESSES)
def test_a_trial_without_a_value_is_as_bad_as_the_worst(excesses):
    scaled = scale_limit(np.array([*excesses, math.nan]))
    assert scaled.values[-1] == max(scaled.values)


def test_the_probability_is_that_of_the_normal_distribution():
    process = belief()
    points = np.array([[0.2, 0.4], [0.9, 0.1]])
    mean, deviation = process.at(points)
    scores = LimitScore(posterior=process, border=0.3).score(points)
    assert np.exp(scores) == pytest.approx(norm.cdf((0.3 - mean) / deviation))


@pytest.mark.parametrize("required", [-math.inf, -0.5, -0.01])
@pytest.mark.parametrize("border", [0.3, -40.0, 40.0])
def test_slopes_are_those_of_the_score(border, required):
    parts = (
        LimitScore(posterior=belief(), border=border, required=required),
        ExpectedImprovement(posterior=belief(1), best=-0.5),
    )
    score, point = ScoreSum(parts=parts), np.array([0.35, 0.6])
    value, slope = score.slopes(point[None])
    assert value == pytest.approx(score.score(point[None]))
    estimate = approx_fprime(point, lambda row: score.score(row[None])[0], 1e-7)
    assert slope[0] == pytest.approx(estimate, rel=1e-3, abs=1e-3)


def test_violations_of_several_limits_add_up_and_safe_trials_have_none():
    excesses = np.array([[-1.0, -100.0], [1.0, -100.0], [1.0, 100.0], [0.0, math.nan]])
    violations = total_violation(excesses)
    assert violations[0] == 0
    assert 0 < violations[1] < violations[2]
    assert violations[3] > 0
